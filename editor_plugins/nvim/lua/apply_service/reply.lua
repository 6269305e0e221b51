--- A reply over several files: the service says which files it names and what becomes of each.  Every file gets a proposal
--- in a buffer of its own, and the hunks of all stand in the quickfix list.  Nothing is written.
local client = require("apply_service.client")
local document = require("apply_service.document")
local errors = require("apply_service.errors")
local notice = require("apply_service.notice")
local preview = require("apply_service.preview")
local request = require("apply_service.request")
local verdicts = require("apply_service.verdicts")

local M = {}
local uv = vim.uv or vim.loop

---@type fun()|nil what cancels the reply under way
local running = nil

---@class apply_service.ReplyFile
---@field buffer integer
---@field doc apply_service.Document

--- The real path of what is there, or would be: links of the folders that exist are followed.
local function real_path(path)
  local found = uv.fs_realpath(path)
  if found or path == "/" then
    return found or path
  end
  return vim.fn.fnamemodify(path, ":h") == path and path
    or real_path(vim.fn.fnamemodify(path, ":h")):gsub("/$", "") .. "/" .. vim.fn.fnamemodify(path, ":t")
end

--- Where a name of the reply leads; nil where that is not below the current folder.
local function path_of(name)
  if vim.startswith(name, "/") or name:find("\0", 1, true) or vim.tbl_contains(vim.split(name, "[/\\]"), "..") then
    return nil
  end
  local root = real_path(vim.fn.getcwd()):gsub("/$", "")
  local path = real_path(root .. "/" .. name)
  local is_inside = vim.startswith(path, root .. "/") and not vim.startswith(path .. "/", root .. "/.git/")
  return is_inside and path or nil
end

--- A file in a buffer that need not be shown; nil and why where it cannot be edited.
---@return apply_service.ReplyFile|nil
---@return string|nil
local function open_file(path)
  local buffer = vim.fn.bufadd(path)
  local ok, fault = pcall(vim.fn.bufload, buffer)
  if not ok then
    return nil, tostring(fault)
  end
  local doc = document.read(buffer)
  local refusal = document.refusal(buffer) or request.fault_in(doc, {})
  if refusal then
    return nil, refusal
  end
  return { buffer = buffer, doc = doc }
end

--- The files of this machine that a first answer names, by name; and what is to be said of names that are refused.
---@return table<string, apply_service.ReplyFile> files
---@return table<string, string> faults
local function files_of(items)
  local files, faults = {}, {}
  for _, item in ipairs(items) do
    for _, name in ipairs({ item.path or item.source, item.source }) do
      local path = path_of(name)
      if not path then
        faults[name] = "the name leads out of the current folder (:pwd), or into .git"
      elseif not files[name] and (vim.fn.bufloaded(path) == 1 or uv.fs_stat(path)) then
        files[name], faults[name] = open_file(path)
      end
    end
  end
  return files, faults
end

local HAS_TEXT = { create = true, modify = true }

--- The proposal of an item and its file; nil and why where there is none.
local function offered_by(item, files, faults)
  local name = item.path or item.source or "?"
  local fault = faults[name] or (item.source and faults[item.source])
  if fault then
    return nil, nil, fault
  elseif item.status ~= "ok" then
    return nil, nil, errors.text(errors.of_detail(item.error))
  elseif not HAS_TEXT[item.action] or not item.answer or not client.is_whole(item.answer) then
    return nil, nil, ("`%s` is not done by an editor: apply-service apply --patch"):format(item.action)
  end
  local file = files[name]
  if not file then
    file, fault = open_file(path_of(name))
    if not file then
      return nil, nil, fault
    end
  end
  local offered, failure = request.proposal_of(file.doc.text, item.answer)
  return offered, file, failure and errors.text(failure)
end

local function entries_of(file, offered)
  local entries = {}
  for i, hunk in ipairs(offered.hunks) do
    local first = preview.rows(offered, hunk, file.doc)
    entries[i] = {
      bufnr = file.buffer,
      lnum = math.min(first + 1, math.max(1, #file.doc.lines)),
      text = ("hunk %d/%d"):format(i, #offered.hunks),
    }
  end
  return entries
end

local function open_proposal(file, offered)
  vim.bo[file.buffer].buflisted = true
  request.receive(file.buffer, file.doc, offered)
end

--- Show what became of each file.
local function present(items, files, faults)
  local entries, n_files, n_hunks, n_failed, n_found = {}, 0, 0, 0, 0
  for _, item in ipairs(items) do
    local offered, file, fault = offered_by(item, files, faults)
    if not offered then
      n_failed = n_failed + 1
      entries[#entries + 1] = { filename = item.path or item.source, type = "E", text = fault }
      notice.error(("%s: %s"):format(item.path or item.source, fault))
    elseif #offered.hunks > 0 then
      open_proposal(file, offered)
      n_files, n_hunks = n_files + 1, n_hunks + #offered.hunks
      n_found = n_found + (verdicts.has_findings(item.answer) and 1 or 0)
      vim.list_extend(entries, entries_of(file, offered))
    end
  end
  if #entries == 0 then
    return notice.info("the reply changes nothing")
  end
  vim.fn.setqflist({}, " ", { title = "apply-service", items = entries })
  local doubts = n_found > 0 and (", findings in %d (:ApplyVerdicts there)"):format(n_found) or ""
  local failures = n_failed > 0 and (", %d failed"):format(n_failed) or ""
  local files_said = n_files == 1 and "1 file" or n_files .. " files"
  if n_files > 0 then
    for i, entry in ipairs(entries) do
      if entry.bufnr then
        vim.cmd("silent cc " .. i)
        break
      end
    end
  end
  notice.info(
    ("%s in %s%s%s (:copen lists them, :cfdo ApplyAccept! takes all, :cfdo write ++p writes them)"):format(
      request.hunks(n_hunks),
      files_said,
      failures,
      doubts
    )
  )
end

local function ask(text, files, on_answer)
  local options = require("apply_service").options()
  local sent = {}
  for name, file in pairs(files) do
    sent[#sent + 1] = { path = name, original = file.doc.text, base_sha256 = vim.fn.sha256(file.doc.text) }
  end
  local body = { patch = text, mode = "independent", files = #sent > 0 and sent or nil }
  if next(options.on_verdict) then
    body.on_verdict = options.on_verdict
  end
  running = client.batch(body, options, {
    on_text = function() end,
    on_answer = function(answer)
      running = nil
      on_answer(answer.items)
    end,
    on_error = function(failure)
      running = nil
      local say = failure.code == "cancelled" and notice.info or notice.error
      say(errors.text(failure))
    end,
  })
end

--- Ask which files a reply names, then what becomes of them.  No buffer is changed before hunks are accepted.
---@param text string
function M.start(text)
  local refusal = request.fault_in({ text = "" }, { update = text })
  if running then
    refusal = "a reply is under way (:ApplyCancel stops it)"
  end
  if refusal then
    return notice.error(refusal)
  end
  ask(text, {}, function(named)
    local files, faults = files_of(named)
    if not next(files) then
      return present(named, files, faults)
    end
    ask(text, files, function(items)
      present(items, files, faults)
    end)
  end)
end

--- Stop the reply under way.
---@return boolean whether there was one
function M.cancel()
  if not running then
    return false
  end
  running()
  return true
end

return M
