--- What each command does.
local diff_view = require("apply_service.diff_view")
local motions = require("apply_service.motions")
local notice = require("apply_service.notice")
local proposals = require("apply_service.proposals")
local reply = require("apply_service.reply")
local request = require("apply_service.request")
local snippet = require("apply_service.snippet")
local verdicts = require("apply_service.verdicts")

local M = {}

--- Buffer of a file, shown in a window of this tab.
local function show_file(path)
  local buffer = vim.fn.bufadd(vim.fn.fnamemodify(vim.fn.expand(path), ":p"))
  vim.fn.bufload(buffer)
  vim.bo[buffer].buflisted = true
  local window = vim.fn.bufwinid(buffer)
  if window ~= -1 then
    vim.api.nvim_set_current_win(window)
  else
    vim.cmd("sbuffer " .. buffer)
  end
  return buffer
end

--- The buffer to edit: the named file's; else the alternate file's where the snippet is in this buffer.
---@return integer|nil
local function target(path, is_from_this_buffer)
  if path then
    return show_file(path)
  end
  if not is_from_this_buffer then
    return vim.api.nvim_get_current_buf()
  end
  local alternate = vim.fn.bufnr("#")
  if alternate > 0 and alternate ~= vim.api.nvim_get_current_buf() and vim.fn.bufname(alternate) ~= "" then
    return show_file(vim.api.nvim_buf_get_name(alternate))
  end
  notice.error("name the file to edit: there is no alternate file")
end

local function source_of(call, word)
  if call.range > 0 then
    return snippet.of_range(call.line1, call.line2), true
  elseif word == "block" then
    return snippet.of_block(), true
  end
  return snippet.of_register(word or require("apply_service").options().register), false
end

--- `:[range]ApplySnippet [block|{register}] [file]`
function M.ApplySnippet(call)
  local words = vim.deepcopy(call.fargs)
  local names_source = words[1] and call.range == 0 and (words[1] == "block" or #words[1] == 1)
  local source, is_from_this_buffer = source_of(call, names_source and table.remove(words, 1) or nil)
  if source.refusal or #words > 1 then
    return notice.error(source.refusal or "too many arguments; see :help :ApplySnippet")
  end
  local buffer = target(words[1], is_from_this_buffer)
  if buffer then
    request.start(buffer, { update = source.text })
  end
end

--- `:[range]ApplyReply [{register}]`
function M.ApplyReply(call)
  local source = source_of(call, call.args ~= "" and call.args or nil)
  if source.refusal or #call.args > 1 then
    return notice.error(source.refusal or "name one register; see :help :ApplyReply")
  end
  reply.start(source.text)
end

local function instruct(buffer, instruction, update)
  if instruction and vim.trim(instruction) ~= "" then
    request.start(buffer, { instruction = instruction, update = update })
  end
end

--- `:ApplyInstruct[!] [text]`
function M.ApplyInstruct(call)
  local buffer, source = vim.api.nvim_get_current_buf(), {}
  if call.bang then
    source = snippet.of_register(require("apply_service").options().register)
  end
  if source.refusal then
    return notice.error(source.refusal)
  end
  if call.args ~= "" then
    return instruct(buffer, call.args, source.text)
  end
  vim.ui.input({ prompt = "Instruction: " }, function(text)
    instruct(buffer, text, source.text)
  end)
end

--- Pending hunks that a command is about: all of them, or the one under the cursor.  Where the buffer was changed since
--- the answer came, the two are merged first, for the user to look at.
local function hunks_of(call)
  local buffer = vim.api.nvim_get_current_buf()
  proposals.follow_undo(buffer)
  local proposal = proposals.get(buffer)
  if not proposal then
    return notice.info("there is no proposal for this buffer")
  end
  if #proposal.hunks == 0 then -- a reading that changes nothing: so it is decided
    return proposals.close(buffer)
  elseif proposals.is_stale(buffer) then
    return request.carry_over(buffer)
  elseif call.bang then
    return proposal:in_state("pending")
  end
  local index = motions.under_cursor()
  if not index then
    return notice.info("no pending hunk under the cursor")
  end
  return { index }
end

function M.ApplyAccept(call)
  local hunks = hunks_of(call)
  if hunks then
    proposals.accept(vim.api.nvim_get_current_buf(), hunks)
  end
end

function M.ApplyReject(call)
  if call.bang and proposals.is_stale(vim.api.nvim_get_current_buf()) then
    return proposals.close(vim.api.nvim_get_current_buf())
  end
  local hunks = hunks_of(call)
  if hunks then
    proposals.reject(vim.api.nvim_get_current_buf(), hunks)
  end
end

--- `:ApplyReading[!]`
function M.ApplyReading(call)
  request.step(vim.api.nvim_get_current_buf(), call.bang and -1 or 1)
end

function M.ApplyDiff()
  local buffer = vim.api.nvim_get_current_buf()
  local proposal = proposals.get(buffer)
  if not proposal then
    return notice.info("there is no proposal for this buffer")
  end
  diff_view.open(buffer, proposal)
end

function M.ApplyVerdicts()
  if not verdicts.show(vim.api.nvim_get_current_buf()) then
    notice.info("there is no answer for this buffer yet")
  end
end

function M.ApplyCancel()
  if not request.cancel(vim.api.nvim_get_current_buf()) and not reply.cancel() then
    notice.info("no edit of this buffer is under way")
  end
end

--- Run a command by name; options that are bad are told, not thrown.
function M.run(name, call)
  local ok, fault = pcall(require("apply_service").options)
  if not ok then
    return notice.error(tostring(fault))
  end
  M[name](call)
end

return M
