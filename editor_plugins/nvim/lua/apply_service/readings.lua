--- The readings of an edit in doubt: which one is shown, the request for another, and the words for them.
local Readings = {}
Readings.__index = Readings

local M = {}

local function is_doubted(answer)
  for _, verdict in ipairs(answer.verdicts) do
    if verdict.check == "doubt" and verdict.severity ~= "pass" then
      return true
    end
  end
  return false
end

local function others_of(told)
  local all = {}
  for i, other in ipairs(told or {}) do
    if type(other.id) ~= "string" or type(other.difference) ~= "string" then
      return {}
    end
    all[i] = { id = other.id, difference = other.difference }
  end
  return all
end

--- Those that an answer tells; nil where it is not in doubt, or tells none that can be asked for (an older service).
---@param asked table the request
---@param answer table
function M.of(asked, answer)
  local others = others_of(answer.readings)
  if #others == 0 or type(answer.reading) ~= "string" or not is_doubted(answer) then
    return nil
  end
  local all = vim.list_extend({ { id = answer.reading } }, others)
  return setmetatable({ asked = asked, likeliest = answer, all = all, at = 1 }, Readings)
end

--- Those of an edit that was refused because it is not clear; each is told beside the file.  nil: there are none.
---@param asked table the request
---@param failure apply_service.Error
function M.of_refusal(asked, failure)
  local all = others_of(failure.readings)
  return #all > 0 and setmetatable({ asked = asked, all = all, at = 1 }, Readings) or nil
end

--- The same with the next (1) or previous (-1) one shown, round the end.
---@param by 1|-1
function Readings:step(by)
  return setmetatable(vim.tbl_extend("force", self, { at = (self.at - 1 + by) % #self.all + 1 }), Readings)
end

--- The same for a buffer that was changed since; the one that is shown was answered again.
---@param asked table
---@param answer table
function Readings:carried(asked, answer)
  local likeliest = self.at == 1 and self.likeliest and answer or nil
  return setmetatable({ asked = asked, likeliest = likeliest, all = self.all, at = self.at }, Readings)
end

--- Asks for the one that is shown, without a stream: no model writes.
function Readings:request()
  return vim.tbl_extend("force", self.asked, { reading = self.all[self.at].id, stream = false })
end

--- Which one is shown, of how many.
function Readings:place()
  return ("reading %d of %d"):format(self.at, #self.all)
end

--- What the one that is shown does instead of the likeliest; of the first, a question.
function Readings:words()
  local first = self.all[1].difference or self.all[2].difference
  return self.at == 1 and ("Did you mean to %s?"):format(first) or self.all[self.at].difference
end

return M
