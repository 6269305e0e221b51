-- Registers the commands; everything else is loaded when the first of them runs.
if vim.g.loaded_apply_service then
  return
end
vim.g.loaded_apply_service = true

local function command(name, attributes)
  vim.api.nvim_create_user_command(name, function(call)
    require("apply_service.commands").run(name, call)
  end, attributes)
end

command("ApplySnippet", { nargs = "*", range = true, complete = "file", desc = "Apply a snippet to this file" })
command("ApplyReply", { nargs = "?", range = true, desc = "Apply a reply to all the files that it names" })
command("ApplyInstruct", { nargs = "*", bang = true, desc = "Apply an instruction; !: with the clipboard's snippet" })
command("ApplyAccept", { nargs = 0, bang = true, desc = "Accept the hunk under the cursor; !: all of them" })
command("ApplyReject", { nargs = 0, bang = true, desc = "Reject the hunk under the cursor; !: all of them" })
command("ApplyReading", { nargs = 0, bang = true, desc = "Show the next reading of an edit in doubt; !: the previous" })
command("ApplyDiff", { nargs = 0, desc = "Show the proposal in diff mode, in a tab of its own" })
command("ApplyVerdicts", { nargs = 0, desc = "Show what the checks found, and how sure the model was" })
command("ApplyCancel", { nargs = 0, desc = "Stop the request under way" })
