--- Highlight groups; all are `default`, so a colour scheme or the user wins.
local M = {}

local LINKS = {
  ApplyServiceOriginal = "Comment",
  ApplyServiceUpdate = "DiffAdd",
  ApplyServiceModel = "DiffText",
  ApplyServiceDelete = "DiffDelete",
  ApplyServiceNote = "NonText",
  ApplyServiceWarning = "DiagnosticWarn",
  ApplyServiceError = "DiagnosticError",
  ApplyServicePass = "DiagnosticHint",
}

local BY_ORIGIN = {
  original = "ApplyServiceOriginal",
  update = "ApplyServiceUpdate",
  model = "ApplyServiceModel",
}

local BY_SEVERITY = { pass = "ApplyServicePass", warning = "ApplyServiceWarning", error = "ApplyServiceError" }

--- Define the groups; a colour scheme that was loaded since may have cleared them.
function M.define()
  for group, link in pairs(LINKS) do
    vim.api.nvim_set_hl(0, group, { link = link, default = true })
  end
end

--- Group of a line by where it comes from.
function M.of_origin(origin)
  return BY_ORIGIN[origin] or "ApplyServiceModel"
end

function M.of_severity(severity)
  return BY_SEVERITY[severity] or "ApplyServiceWarning"
end

return M
