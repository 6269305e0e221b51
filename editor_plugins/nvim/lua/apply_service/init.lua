--- Entry of the plugin: options and what other plugins may call.  The commands are in `commands`.
local M = {}

local options = nil

--- Set the options; what is left out keeps its default.  Raises where a key is unknown or a value bad.
---@param given table|nil
function M.setup(given)
  options = require("apply_service.options").complete(given)
end

--- The options in force.
---@return table
function M.options()
  if options == nil then
    M.setup()
  end
  return options
end

--- What the statusline shows for a buffer; "" where nothing goes on.
---@param buffer integer|nil the current one by default
---@return string
function M.statusline(buffer)
  return require("apply_service.progress").statusline(buffer or vim.api.nvim_get_current_buf())
end

return M
