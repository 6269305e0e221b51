--- The answer's edits as byte ranges of the original, and texts with some of them applied.  No buffer is touched here.
local M = {}

---@class apply_service.ByteEdit
---@field first integer byte offset, 0-based
---@field last integer one past the last byte
---@field text string what takes their place

--- Where lines begin as the service counts them: they end at "\n", "\r\n" or a lone "\r".
---@return integer[] byte offsets, 0-based; after a line end at the text's end there is one more
function M.line_starts(text)
  local starts, at = { 0 }, 1
  while true do
    local place = text:find("[\r\n]", at)
    if not place then
      return starts
    end
    at = place + (text:sub(place, place + 1) == "\r\n" and 2 or 1)
    starts[#starts + 1] = at - 1
  end
end

--- Offset at which a line begins; the text's end for lines past the last.
function M.offset_of_line(starts, text, line)
  return starts[line + 1] or #text
end

local function byte_edit(edit, starts, text)
  local columns = edit.utf8_columns
  return {
    first = M.offset_of_line(starts, text, edit.range.start.line) + columns.start,
    last = M.offset_of_line(starts, text, edit.range["end"].line) + columns["end"],
    text = edit.newText,
  }
end

--- The answer's edits, in order.
---@return apply_service.ByteEdit[]
function M.byte_edits(text, edits)
  local starts, found = M.line_starts(text), {}
  for i, edit in ipairs(edits) do
    found[i] = byte_edit(edit, starts, text)
  end
  return found
end

--- The text with edits applied, which are in order and do not overlap.
---@return string
function M.apply(text, edits)
  local pieces, at = {}, 1
  for _, edit in ipairs(edits) do
    pieces[#pieces + 1] = text:sub(at, edit.first)
    pieces[#pieces + 1] = edit.text
    at = edit.last + 1
  end
  pieces[#pieces + 1] = text:sub(at)
  return table.concat(pieces)
end

--- By how many bytes an edit makes the text longer.
function M.growth(edit)
  return #edit.text - (edit.last - edit.first)
end

return M
