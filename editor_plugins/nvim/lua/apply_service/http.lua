--- An HTTP answer as curl prints it with `--include`, read piece by piece: status, headers, then the body.
local M = {}

local Reader = {}
Reader.__index = Reader

---@param on_body fun(data: string)
function M.reader(on_body)
  return setmetatable({ headers = {}, _held = "", _on_body = on_body }, Reader)
end

--- A block of headers; what comes before the answer's own (100 Continue) is passed over.
function Reader:_take_block(block)
  local status = tonumber(block:match("^HTTP/[%d.]+ (%d%d%d)"))
  if not status or status < 200 then
    return
  end
  self.status = status
  for name, value in block:gmatch("\n([^:\r\n]+):[ \t]*([^\r\n]*)") do
    self.headers[name:lower()] = value
  end
end

---@param data string
function Reader:feed(data)
  if self.status then
    return self._on_body(data)
  end
  self._held = self._held .. data
  local block, rest = self._held:match("^(.-\r?\n)\r?\n(.*)$")
  if not block then
    return
  end
  self._held = ""
  self:_take_block(block)
  if rest ~= "" then
    self:feed(rest)
  end
end

function Reader:is_event_stream()
  return vim.startswith(self.headers["content-type"] or "", "text/event-stream")
end

return M
