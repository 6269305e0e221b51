--- Keys of a buffer while it has a proposal.  A mapping of the buffer's own that they hide comes back afterwards.
local M = {}

local ACTIONS = {
  next_hunk = { "<Cmd>lua require('apply_service.motions').jump(1)<CR>", "Next hunk" },
  previous_hunk = { "<Cmd>lua require('apply_service.motions').jump(-1)<CR>", "Previous hunk" },
  accept = { "<Cmd>ApplyAccept<CR>", "Accept this hunk" },
  reject = { "<Cmd>ApplyReject<CR>", "Reject this hunk" },
  next_reading = { "<Cmd>ApplyReading<CR>", "Next reading" },
  previous_reading = { "<Cmd>ApplyReading!<CR>", "Previous reading" },
  accept_all = { "<Cmd>ApplyAccept!<CR>", "Accept all hunks" },
  reject_all = { "<Cmd>ApplyReject!<CR>", "Reject all hunks" },
}

---@type table<integer, {key: string, hidden: table|nil}[]>
local placed = {}

local function hidden_mapping(buffer, key)
  local map = vim.api.nvim_buf_call(buffer, function()
    return vim.fn.maparg(key, "n", false, true)
  end)
  return map.buffer == 1 and map or nil
end

--- Set the keys that the options name; those of readings only where there are others.
---@param buffer integer
---@param has_readings boolean
function M.put(buffer, has_readings)
  if placed[buffer] then
    return
  end
  placed[buffer] = {}
  for name, key in pairs(require("apply_service").options().keymaps) do
    if key and key ~= "" and (has_readings or not vim.endswith(name, "_reading")) then
      table.insert(placed[buffer], { key = key, hidden = hidden_mapping(buffer, key) })
      local action = ACTIONS[name]
      vim.keymap.set("n", key, action[1], { buffer = buffer, desc = "apply-service: " .. action[2] })
    end
  end
end

function M.remove(buffer)
  for _, place in ipairs(placed[buffer] or {}) do
    pcall(vim.keymap.del, "n", place.key, { buffer = buffer })
    if place.hidden then
      vim.api.nvim_buf_call(buffer, function()
        vim.fn.mapset("n", false, place.hidden)
      end)
    end
  end
  placed[buffer] = nil
end

return M
