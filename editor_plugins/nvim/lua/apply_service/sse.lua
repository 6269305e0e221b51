--- Server-sent events, read piece by piece: name and data of each event that is whole.
local M = {}

local Reader = {}
Reader.__index = Reader

---@param on_event fun(name: string, data: string)
function M.reader(on_event)
  return setmetatable({ _held = {}, _on_event = on_event }, Reader)
end

local function parse(block)
  local name, data = "message", {}
  for line in (block .. "\n"):gmatch("([^\n]*)\n") do
    local field, value = line:match("^(%l+): ?(.-)\r?$")
    if field == "event" then
      name = value
    elseif field == "data" then
      data[#data + 1] = value
    end
  end
  return name, #data > 0 and table.concat(data, "\n") or nil
end

--- Pieces are only joined once one of them may end an event: a long one costs no more than its length.
---@param piece string
function Reader:feed(piece)
  self._held[#self._held + 1] = piece
  if not piece:find("\n", 1, true) then
    return
  end
  local text, at = table.concat(self._held), 1
  while true do
    local first, last = text:find("\r?\n\r?\n", at)
    if not first then
      break
    end
    local name, data = parse(text:sub(at, first - 1))
    at = last + 1
    if data then
      self._on_event(name, data)
    end
  end
  self._held = { text:sub(at) }
end

return M
