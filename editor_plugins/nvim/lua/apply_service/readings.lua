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

--- Those that an answer tells; nil where it is not in doubt, or tells none that can be asked for (an older service).
---@param asked table the request
---@param answer table
function M.of(asked, answer)
  local all = { { id = answer.reading } }
  for _, other in ipairs(answer.readings or {}) do
    if type(other.id) ~= "string" or type(other.difference) ~= "string" then
      return nil
    end
    all[#all + 1] = { id = other.id, difference = other.difference }
  end
  if #all == 1 or type(answer.reading) ~= "string" or not is_doubted(answer) then
    return nil
  end
  return setmetatable({ asked = asked, likeliest = answer, all = all, at = 1 }, Readings)
end

--- The same with the next (1) or previous (-1) one shown, round the end.
---@param by 1|-1
function Readings:step(by)
  return setmetatable(vim.tbl_extend("force", self, { at = (self.at - 1 + by) % #self.all + 1 }), Readings)
end

--- Asks for the one that is shown.
function Readings:request()
  return vim.tbl_extend("force", self.asked, { reading = self.all[self.at].id })
end

--- Which one is shown, of how many.
function Readings:place()
  return ("reading %d of %d"):format(self.at, #self.all)
end

--- What the one that is shown does instead of the likeliest; of the likeliest, whether the next one is meant.
function Readings:words()
  local difference = self.all[self.at].difference
  return difference or ("Did you mean to %s?"):format(self.all[2].difference)
end

return M
