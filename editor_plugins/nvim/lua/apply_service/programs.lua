--- Where a program is.  On Windows Neovim looks in the current folder first, which is that of a project.
local M = {}
local uv = vim.uv or vim.loop

local function is_absolute(folder)
  return folder:match("^/") ~= nil or folder:match("^%a:[\\/]") ~= nil or folder:match("^\\\\") ~= nil
end

--- A name is looked for in the absolute folders of PATH; a path stays what it is.
---@param name string
---@return string|nil file nil: there is none
function M.find(name)
  local is_windows = vim.fn.has("win32") == 1
  if name:find(is_windows and "[\\/]" or "/") then
    return vim.fn.executable(name) == 1 and name or nil
  end
  local endings = is_windows and { ".exe", ".cmd", ".bat", "" } or { "" }
  for _, folder in ipairs(vim.split(uv.os_getenv("PATH") or "", is_windows and ";" or ":")) do
    for _, ending in ipairs(is_absolute(folder) and endings or {}) do
      local file = folder .. "/" .. name .. ending
      if vim.fn.executable(file) == 1 then
        return file
      end
    end
  end
end

--- The command line with the program as a file; nil where there is none.
---@param argv string[]
---@return string[]|nil
function M.resolve(argv)
  local file = M.find(argv[1])
  return file and vim.list_extend({ file }, argv, 2)
end

return M
