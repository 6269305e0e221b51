--- A buffer as the file it stands for: text with the line ends and the byte-order mark that it is written with.
--- The other way round: the lines that a text makes in a buffer of that file format.
local M = {}

local SEPARATORS = { unix = "\n", dos = "\r\n", mac = "\r" }
local BOM = "\239\187\191"
local EDITABLE = { [""] = true, acwrite = true, nofile = true }

---@class apply_service.Document
---@field text string
---@field lines string[] as the buffer holds them
---@field separator string
---@field eol boolean whether the text ends with the separator
---@field bom string "" or the mark
---@field starts integer[] byte offset of each line in the text, 0-based

--- Why a buffer cannot be edited; nil where it can.
---@return string|nil
function M.refusal(buffer)
  local option = vim.bo[buffer]
  if not EDITABLE[option.buftype] then
    return ("a %s buffer is not a file that can be edited"):format(option.buftype)
  end
  if not option.modifiable then
    return "the buffer is not modifiable (:set modifiable)"
  end
  if option.readonly then
    return "the buffer is read-only (:set noreadonly)"
  end
end

local function is_unicode(encoding)
  return encoding == "" or vim.startswith(encoding, "utf") or vim.startswith(encoding, "ucs")
end

local function is_empty(buffer)
  return vim.api.nvim_buf_call(buffer, function()
    return vim.fn.wordcount().bytes == 0
  end)
end

local function line_starts(document)
  local starts, at = {}, #document.bom
  for i, line in ipairs(document.lines) do
    starts[i] = at
    at = at + #line + #document.separator
  end
  return starts
end

--- In memory a line holds "\n" for a NUL, and with fileformat=mac "\r" for a line feed.
local function in_file(line, separator)
  local text = line:gsub("\n", "\0")
  return separator == "\r" and (text:gsub("\r", "\n")) or text
end

local function in_memory(line, separator)
  return separator == "\r" and (line:gsub("\n", "\r")) or line
end

---@param buffer integer
---@return apply_service.Document
function M.read(buffer)
  local option = vim.bo[buffer]
  local document = {
    lines = vim.api.nvim_buf_get_lines(buffer, 0, -1, false),
    separator = SEPARATORS[option.fileformat],
    bom = option.bomb and is_unicode(option.fileencoding) and BOM or "",
  }
  document.eol = option.endofline and not is_empty(buffer)
  document.starts = line_starts(document)
  local written = {}
  for i, line in ipairs(document.lines) do
    written[i] = in_file(line, document.separator)
  end
  document.text = document.bom
    .. table.concat(written, document.separator)
    .. (document.eol and document.separator or "")
  return document
end

--- The lines of a text without its byte-order mark; a separator at the end ends the last one.
function M.split(text, separator)
  if text == "" then
    return {}
  end
  local lines = vim.split(text, separator, { plain = true })
  if lines[#lines] == "" then
    table.remove(lines)
  end
  for i, line in ipairs(lines) do
    lines[i] = in_memory(line, separator)
  end
  return lines
end

--- What a text is in a buffer of this separator; nil where such a buffer cannot hold it.
---@return {lines: string[], eol: boolean, bom: string}|nil
function M.parse(text, separator)
  local bom = vim.startswith(text, BOM) and BOM or ""
  local body = text:sub(#bom + 1)
  if body:find("\0", 1, true) then
    return nil
  end
  local lines = M.split(body, separator)
  if separator == "\r\n" then
    for _, line in ipairs(lines) do
      if line:find("\n", 1, true) then
        return nil
      end
    end
  end
  return { lines = lines, eol = vim.endswith(body, separator), bom = bom }
end

--- Row and byte column (0-based) of a byte offset; one row past the last where the text ends with a line end.
---@param document apply_service.Document
function M.place(document, offset)
  if document.eol and offset == #document.text then
    return #document.lines, 0
  end
  local low, high = 1, #document.lines
  while low < high do
    local middle = math.floor((low + high + 1) / 2)
    if document.starts[middle] <= offset then
      low = middle
    else
      high = middle - 1
    end
  end
  return low - 1, math.max(0, offset - document.starts[low])
end

return M
