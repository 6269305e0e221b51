--- The one way the plugin speaks to its user.
local M = {}

local function say(level)
  return function(text)
    vim.notify("apply-service: " .. text, level, { title = "apply-service" })
  end
end

M.info = say(vim.log.levels.INFO)
M.warn = say(vim.log.levels.WARN)
M.error = say(vim.log.levels.ERROR)

return M
