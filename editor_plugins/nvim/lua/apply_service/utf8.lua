--- Whether bytes are UTF-8, as a JSON text must be.
local M = {}

local SHAPES = { "^[\194-\223][\128-\191]", "^[\224-\239][\128-\191][\128-\191]", "^[\240-\244][\128-\191][\128-\191][\128-\191]" }

local function is_out_of_range(character)
  local a, b = character:byte(1, 2)
  return (a == 224 and b < 160) or (a == 237 and b > 159) or (a == 240 and b < 144) or (a == 244 and b > 143)
end

local function sequence_at(text, at)
  local piece = text:sub(at, at + 3)
  for _, shape in ipairs(SHAPES) do
    local character = piece:match(shape)
    if character then
      return not is_out_of_range(character) and character or nil
    end
  end
end

--- Place of the first byte that is not UTF-8, 1-based; nil where all is.
---@param text string
---@return integer|nil
function M.first_fault(text)
  local at = text:find("[\128-\255]")
  while at do
    local character = sequence_at(text, at)
    if not character then
      return at
    end
    at = text:find("[\128-\255]", at + #character)
  end
end

return M
