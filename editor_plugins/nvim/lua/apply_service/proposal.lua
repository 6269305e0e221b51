--- An answer as hunks that wait to be accepted or rejected.  Knows texts only; no buffer is touched here.
local edits = require("apply_service.edits")

local Proposal = {}
Proposal.__index = Proposal

local M = {}

---@class apply_service.Hunk
---@field state "pending"|"accepted"|"rejected"
---@field edits apply_service.ByteEdit[] of the original
---@field first integer byte offset of its first line in the original
---@field last integer
---@field lines {text: string, origin: string}[] what is to stand there
---@field confidence number|nil

local function line_text(text, starts, line)
  local first = edits.offset_of_line(starts, text, line)
  return (text:sub(first + 1, edits.offset_of_line(starts, text, line + 1)):gsub("[\r\n]+$", ""))
end

local function origin_of(spans, line)
  for _, span in ipairs(spans) do
    if line >= span.start_line and line < span.end_line then
      return span.origin
    end
  end
  return "model"
end

local function hunk_of(said, text, starts, answer, merged_starts, all)
  local lines = {}
  for line = said.merged_start, said.merged_end - 1 do
    local shown = line_text(answer.merged_code, merged_starts, line)
    lines[#lines + 1] = { text = shown, origin = origin_of(answer.spans, line) }
  end
  return {
    state = "pending",
    edits = vim.list_slice(all, said.first_edit + 1, said.end_edit),
    first = edits.offset_of_line(starts, text, said.original_start),
    last = edits.offset_of_line(starts, text, said.original_end),
    lines = lines,
    confidence = said.confidence,
  }
end

--- The proposal that an answer makes for a text; nil where its edits do not lead from the one text to the other.
---@param text string
---@param answer table
function M.new(text, answer)
  local all = edits.byte_edits(text, answer.edits)
  if edits.apply(text, all) ~= answer.merged_code then
    return nil
  end
  local self = setmetatable({ original = text, answer = answer, hunks = {} }, Proposal)
  local starts, merged_starts = edits.line_starts(text), edits.line_starts(answer.merged_code)
  for i, said in ipairs(answer.hunks) do
    self.hunks[i] = hunk_of(said, text, starts, answer, merged_starts, all)
  end
  return self
end

--- The edits of the hunks whose index or state the predicate takes.
function Proposal:_edits_of(is_wanted)
  local found = {}
  for i, hunk in ipairs(self.hunks) do
    if is_wanted(hunk, i) then
      vim.list_extend(found, hunk.edits)
    end
  end
  return found
end

local function is_accepted(hunk)
  return hunk.state == "accepted"
end

--- What the buffer holds if nobody else changed it.
function Proposal:text()
  return edits.apply(self.original, self:_edits_of(is_accepted))
end

--- The text if every hunk that is not rejected is accepted.
function Proposal:offered()
  local found = self:_edits_of(function(hunk)
    return hunk.state ~= "rejected"
  end)
  return edits.apply(self.original, found)
end

--- By how many bytes what is accepted moves what stands at an offset of the original or after it.
function Proposal:shift(offset)
  local sum = 0
  for _, hunk in ipairs(self.hunks) do
    if hunk.state == "accepted" and hunk.first < offset then
      for _, edit in ipairs(hunk.edits) do
        sum = sum + edits.growth(edit)
      end
    end
  end
  return sum
end

--- What accepting pending hunks does: edits of the text as it is now, and the text that they lead to.
---@param wanted table<integer, boolean> indices
function Proposal:plan(wanted)
  local shifted, sum = {}, 0
  for i, hunk in ipairs(self.hunks) do
    for _, edit in ipairs(hunk.edits) do
      if is_accepted(hunk) then
        sum = sum + edits.growth(edit)
      elseif wanted[i] then
        shifted[#shifted + 1] = { first = edit.first + sum, last = edit.last + sum, text = edit.text }
      end
    end
  end
  local after = self:_edits_of(function(hunk, i)
    return is_accepted(hunk) or wanted[i]
  end)
  return shifted, edits.apply(self.original, after)
end

---@param state string
---@return integer[] indices
function Proposal:in_state(state)
  local found = {}
  for i, hunk in ipairs(self.hunks) do
    if hunk.state == state then
      found[#found + 1] = i
    end
  end
  return found
end

--- The text went back to the original's (undo): what was accepted is pending again.
function Proposal:reopen()
  for _, hunk in ipairs(self.hunks) do
    if is_accepted(hunk) then
      hunk.state = "pending"
    end
  end
end

return M
