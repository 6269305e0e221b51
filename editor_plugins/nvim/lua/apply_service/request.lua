--- From a buffer and an edit to a request, and from its answer to a proposal.
local client = require("apply_service.client")
local document = require("apply_service.document")
local errors = require("apply_service.errors")
local motions = require("apply_service.motions")
local notice = require("apply_service.notice")
local progress = require("apply_service.progress")
local proposal = require("apply_service.proposal")
local proposals = require("apply_service.proposals")
local readings = require("apply_service.readings")
local utf8 = require("apply_service.utf8")
local verdicts = require("apply_service.verdicts")

local M = {}

local UNDER_WAY = "an edit of this buffer is under way (:ApplyCancel stops it)"

---@type table<integer, fun()> what cancels the request of each buffer
local running = {}

local function body(buffer, doc, edit, options)
  local name = vim.api.nvim_buf_get_name(buffer)
  local request = {
    original = doc.text,
    update = edit.update,
    instruction = edit.instruction,
    path = name ~= "" and vim.fn.fnamemodify(name, ":t") or nil,
    base_sha256 = vim.fn.sha256(doc.text),
    strategy = options.strategy,
    model = options.model,
    drafter = options.drafter,
    constrain = options.constrain,
    timeout_s = options.timeout_s,
    stream = options.stream or nil,
  }
  if name == "" and vim.bo[buffer].filetype ~= "" then
    request.language = vim.bo[buffer].filetype
  end
  if next(options.on_verdict) then
    request.on_verdict = options.on_verdict
  end
  return request
end

--- Why texts cannot be sent; nil where they can.
function M.fault_in(doc, edit)
  for name, text in pairs({ buffer = doc.text, snippet = edit.update or "", instruction = edit.instruction or "" }) do
    local at = utf8.first_fault(text)
    if at then
      return ("the %s is not UTF-8 at byte %d"):format(name, at)
    end
    if text:find("\0", 1, true) then
      return ("the %s holds a NUL character"):format(name)
    end
  end
end

local function is_unchanged(buffer, tick, doc)
  return vim.api.nvim_buf_get_changedtick(buffer) == tick or document.read(buffer).text == doc.text
end

--- Why an answer is not used; nil where it is.
local function answer_fault(buffer, tick, doc, answer)
  if not is_unchanged(buffer, tick, doc) then
    return "stale_base", "the buffer was changed while the service worked; nothing was changed. Ask again."
  end
  if answer.source_sha256 ~= vim.fn.sha256(doc.text) or answer.result_sha256 ~= vim.fn.sha256(answer.merged_code) then
    return "bad_answer", "the answer's hashes do not match; nothing was changed."
  end
end

--- The proposal that an answer makes for a buffer; nil, a code and words where it is not used.
---@return table|nil proposal
---@return string|nil code
---@return string|nil fault
function M.proposal_of(buffer, tick, doc, answer)
  local code, fault = answer_fault(buffer, tick, doc, answer)
  if fault then
    return nil, code, fault
  end
  local offered = proposal.new(doc.text, answer)
  if not offered then
    return nil, "bad_answer", "the answer's edits do not lead to its text; nothing was changed."
  end
  return offered
end

local function should_accept(answer, rule)
  return rule == "always" or (rule == "clean" and not verdicts.has_findings(answer))
end

--- So many hunks in words.
function M.hunks(n)
  return n == 1 and "1 hunk" or n .. " hunks"
end

local function present(buffer, offered, answer, options, others)
  local is_accepted = #offered.hunks > 0 and should_accept(answer, options.auto_accept)
  local is_open = #offered.hunks > 0 or others ~= nil
  if is_open then
    proposals.open(buffer, offered, others)
    motions.go_first(buffer)
  end
  if options.verdicts == "always" or (options.verdicts == "findings" and verdicts.has_findings(answer)) then
    verdicts.show(buffer)
  end
  if not is_open then
    progress.clear(buffer)
    return notice.info("the edit changes nothing")
  end
  if not is_accepted and others then
    notice.info(("%s of %s (:ApplyReading shows the next)"):format(M.hunks(#offered.hunks), others:place()))
  elseif not is_accepted then
    notice.info(("%s (:ApplyAccept takes the one under the cursor, :ApplyAccept! all)"):format(M.hunks(#offered.hunks)))
  elseif proposals.accept(buffer, offered:in_state("pending")) then
    notice.info(("%s accepted (u takes them back)"):format(M.hunks(#offered.hunks)))
  end
end

local function receive(buffer, tick, doc, answer, options, others)
  local offered, code, fault = M.proposal_of(buffer, tick, doc, answer)
  if not offered then
    progress.fail(buffer, code)
    return notice.error(fault)
  end
  verdicts.keep(buffer, answer)
  progress.finish(buffer, answer)
  present(buffer, offered, answer, options, others)
end

--- Another reading is only looked at: no option accepts it.  Where it is not used, the one that is shown stays.
local function receive_reading(buffer, tick, doc, answer, others)
  local offered, _, fault = M.proposal_of(buffer, tick, doc, answer)
  if not proposals.get(buffer) then
    return -- decided meanwhile
  elseif not offered then
    return notice.error(fault)
  end
  verdicts.keep(buffer, answer)
  progress.finish(buffer, answer)
  proposals.open(buffer, offered, others)
  motions.go_first(buffer)
end

--- `on_error` may take an error upon itself; else it is told.
---@param on_error fun(failure: apply_service.Error): boolean|nil
local function calls(buffer, on_answer, on_error)
  local function ended(act)
    return function(value)
      running[buffer] = nil
      if vim.api.nvim_buf_is_loaded(buffer) then
        act(value)
      end
    end
  end
  return {
    on_text = function(text)
      if running[buffer] then
        progress.add(buffer, text)
      end
    end,
    on_answer = ended(on_answer),
    on_error = ended(function(failure)
      if on_error(failure) then
        return
      end
      local say = failure.code == "cancelled" and notice.info or notice.error
      say(errors.text(failure))
    end),
  }
end

--- Ask the service for an edit of a buffer.  Nothing is changed before hunks are accepted.
---@param buffer integer
---@param edit {update: string|nil, instruction: string|nil}
function M.start(buffer, edit)
  local options = require("apply_service").options()
  local doc = document.read(buffer)
  local refusal = document.refusal(buffer) or M.fault_in(doc, edit)
  if running[buffer] then
    refusal = UNDER_WAY
  end
  if refusal then
    return notice.error(refusal)
  end
  proposals.close(buffer)
  progress.start(buffer)
  local tick = vim.api.nvim_buf_get_changedtick(buffer)
  local asked = body(buffer, doc, edit, options)
  local function on_answer(answer)
    receive(buffer, tick, doc, answer, options, readings.of(asked, answer))
  end
  local function fail(failure)
    progress.fail(buffer, failure.code)
  end
  -- Where an edit is refused because it is not clear, its likeliest reading is shown, and no option accepts it.
  local function on_error(failure)
    local refused = readings.of_refusal(asked, failure)
    if not refused then
      return fail(failure)
    end
    local careful = vim.tbl_extend("force", options, { auto_accept = "never" })
    local function on_reading(answer)
      receive(buffer, tick, doc, answer, careful, refused)
    end
    running[buffer] = client.apply(refused:request(), options, calls(buffer, on_reading, fail))
    return true
  end
  running[buffer] = client.apply(asked, options, calls(buffer, on_answer, on_error))
end

--- Show the next (1) or previous (-1) reading of the edit in place of the one that is shown.
---@param buffer integer
---@param by 1|-1
function M.step(buffer, by)
  local others = proposals.readings(buffer)
  if not others then
    return notice.info("there is no other reading of this edit")
  elseif not proposals.can_step(buffer) then
    return notice.info("undo what was changed first: another reading begins with the buffer as it was")
  elseif running[buffer] then
    return notice.error(UNDER_WAY)
  end
  others = others:step(by)
  local tick, doc = vim.api.nvim_buf_get_changedtick(buffer), document.read(buffer)
  local function on_answer(answer)
    receive_reading(buffer, tick, doc, answer, others)
  end
  if others.at == 1 and others.likeliest then
    return on_answer(others.likeliest)
  end
  local options = require("apply_service").options()
  running[buffer] = client.apply(others:request(), options, calls(buffer, on_answer, function() end))
end

--- Stop the request under way.
---@return boolean whether there was one
function M.cancel(buffer)
  if not running[buffer] then
    return false
  end
  running[buffer]()
  return true
end

--- Whether a request of this buffer is under way.
function M.is_running(buffer)
  return running[buffer] ~= nil
end

return M
