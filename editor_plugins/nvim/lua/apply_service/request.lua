--- From a buffer and an edit to a request, and from its answer to a proposal.
local carry_over = require("apply_service.carry_over")
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

local CARRIED = "the buffer was changed since the request, and the edit was merged with the change: "

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

--- The proposal that an answer makes for the text that was sent; nil and why where it is not used.
---@param sent string
---@param answer table
---@return table|nil proposal
---@return apply_service.Error|nil failure
function M.proposal_of(sent, answer)
  if answer.source_sha256 ~= vim.fn.sha256(sent) or answer.result_sha256 ~= vim.fn.sha256(answer.merged_code) then
    return nil, errors.make("bad_answer", "The answer's hashes do not match; nothing was changed.")
  end
  local offered = proposal.new(sent, answer)
  if not offered then
    return nil, errors.make("bad_answer", "The answer's edits do not lead to its text; nothing was changed.")
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

--- Words about a buffer, which is named where another one is seen.
local function about(buffer, words)
  local name = vim.fn.fnamemodify(vim.api.nvim_buf_get_name(buffer), ":t")
  return buffer ~= vim.api.nvim_get_current_buf() and name ~= "" and ("%s: %s"):format(name, words) or words
end

---@class apply_service.Showing how an offer is shown
---@field options table
---@field may_accept boolean|nil whether the options may accept it
---@field is_quiet boolean|nil whether nothing is said of it where nothing went wrong

--- What is said of an offer that is shown.
local function announce(buffer, shown, is_accepted, is_carried)
  local words
  if #shown.proposal.hunks == 0 and not shown.readings then
    words = "the edit changes nothing"
  elseif shown.readings then
    words = ("%s of %s (:ApplyReading shows the next)"):format(M.hunks(#shown.proposal.hunks), shown.readings:place())
  else
    local hint = is_accepted and "accepted (u takes them back)"
      or "(:ApplyAccept takes the one under the cursor, :ApplyAccept! all)"
    words = ("%s %s"):format(M.hunks(#shown.proposal.hunks), hint)
  end
  notice.info(about(buffer, (is_carried and CARRIED or "") .. words))
end

--- Show an offer that fits its buffer.
--- `first`: it before it was merged with changes of the buffer; `shown` itself where there were none.
---@param first apply_service.Offer
---@param shown apply_service.Offer
---@param showing apply_service.Showing
local function present(buffer, first, shown, showing)
  local options, answer, offered = showing.options, shown.proposal.answer, shown.proposal
  local is_open = #offered.hunks > 0 or shown.readings ~= nil
  local rule = options.auto_accept
  local is_clean = should_accept(first.proposal.answer, rule) and should_accept(answer, rule)
  local is_carried = shown ~= first
  verdicts.keep(buffer, answer)
  progress.finish(buffer, answer)
  if is_open then
    proposals.open(buffer, shown)
    motions.go_first(buffer)
  else
    proposals.close(buffer)
  end
  if showing.is_quiet and not is_carried then
    return
  elseif options.verdicts == "always" or (options.verdicts == "findings" and verdicts.has_findings(answer)) then
    verdicts.show(buffer)
  end
  local is_taken = showing.may_accept and #offered.hunks > 0 and is_clean
  if not is_taken or proposals.accept(buffer, offered:in_state("pending")) then
    announce(buffer, shown, is_taken, is_carried)
  end
end

local function say(buffer, failure)
  local speak = failure.code == "cancelled" and notice.info or notice.error
  speak(about(buffer, errors.text(failure)))
end

local function fail(buffer, failure)
  progress.fail(buffer, failure.code)
  say(buffer, failure)
end

--- Send a request; `on_end` gets the proposal that its answer makes, or nil and the error.
local function ask(buffer, asked, options, on_end)
  local function ended(act)
    return function(value)
      running[buffer] = nil
      if vim.api.nvim_buf_is_loaded(buffer) then
        act(value)
      end
    end
  end
  running[buffer] = client.apply(asked, options, {
    on_text = function(text)
      if running[buffer] then
        progress.add(buffer, text)
      end
    end,
    on_answer = ended(function(answer)
      on_end(M.proposal_of(asked.original, answer))
    end),
    on_error = ended(function(failure)
      on_end(nil, failure)
    end),
  })
end

--- Show an offer, merged with the buffer where that was changed since.  Where it can't be, it waits: the buffer may be
--- changed so that it fits.
---@param offer apply_service.Offer
---@param showing apply_service.Showing
local function show(buffer, offer, showing)
  local before, n_pending = proposals.get(buffer), (proposals.counts(buffer))
  local function now()
    return document.read(buffer).text
  end
  local function ask_again(asked, on_end)
    local fault = M.fault_in({ text = asked.original }, {})
    if fault or running[buffer] then
      return on_end(nil, errors.make(fault and "bad_encoding" or "stale_base", fault or UNDER_WAY))
    end
    ask(buffer, asked, showing.options, on_end)
  end
  carry_over.run(offer, now, ask_again, function(shown, failure)
    if proposals.get(buffer) ~= before or proposals.counts(buffer) ~= n_pending then
      return proposals.get(buffer) and progress.finish(buffer, proposals.get(buffer).answer) -- decided meanwhile
    elseif shown then
      return present(buffer, offer, shown, showing)
    elseif not before and failure.code ~= "cancelled" then
      proposals.open(buffer, offer)
    end
    if showing.is_quiet and proposals.get(buffer) then
      progress.finish(buffer, proposals.get(buffer).answer)
      return say(buffer, failure)
    end
    fail(buffer, failure)
  end)
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
  local asked = body(buffer, doc, edit, options)
  ask(buffer, asked, options, function(offered, failure)
    if offered then
      local offer = { asked = asked, proposal = offered, readings = readings.of(asked, offered.answer) }
      return show(buffer, offer, { options = options, may_accept = true })
    end
    -- Where an edit is refused because it is not clear, its likeliest reading is shown, and no option accepts it.
    local refused = readings.of_refusal(asked, failure)
    if not refused then
      return fail(buffer, failure)
    end
    local of_reading = refused:request()
    ask(buffer, of_reading, options, function(likeliest, fault)
      if not likeliest then
        return fail(buffer, fault)
      end
      show(buffer, { asked = of_reading, proposal = likeliest, readings = refused }, { options = options })
    end)
  end)
end

--- Merge the proposal of a buffer that was changed since with what the buffer holds now, to be looked at.
---@param buffer integer
function M.carry_over(buffer)
  if running[buffer] then
    return notice.error(UNDER_WAY)
  end
  progress.start(buffer)
  show(buffer, proposals.offer(buffer), { options = require("apply_service").options() })
end

--- Show a proposal for the text that was sent as one file of several.
---@param buffer integer
---@param sent apply_service.Document
---@param offered table
function M.receive(buffer, sent, offered)
  local options = require("apply_service").options()
  local offer = { asked = body(buffer, sent, {}, options), proposal = offered }
  show(buffer, offer, { options = options, is_quiet = true })
end

--- Show the next (1) or previous (-1) reading of the edit in place of the one that is shown.
---@param buffer integer
---@param by 1|-1
function M.step(buffer, by)
  local others = proposals.readings(buffer)
  if not others then
    return notice.info("there is no other reading of this edit")
  elseif proposals.is_stale(buffer) then
    return M.carry_over(buffer)
  elseif not proposals.can_step(buffer) then
    return notice.info("undo what was changed first: another reading begins with the buffer as it was")
  elseif running[buffer] then
    return notice.error(UNDER_WAY)
  end
  others = others:step(by)
  local asked, options = others:request(), require("apply_service").options()
  local before = proposals.get(buffer)
  -- Another reading is only looked at: no option accepts it.  Where it is not used, the one that is shown stays.
  local function on_proposal(offered, failure)
    if proposals.get(buffer) ~= before then
      return -- decided meanwhile
    elseif not offered then
      return say(buffer, failure)
    end
    show(buffer, { asked = asked, proposal = offered, readings = others }, { options = options, is_quiet = true })
  end
  if others.at == 1 and others.likeliest then
    return on_proposal(M.proposal_of(asked.original, others.likeliest))
  end
  ask(buffer, asked, options, on_proposal)
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
