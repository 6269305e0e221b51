/** Puts the parts together. Before a command asks for it nothing is sent but the question whether a server is here. */

import * as vscode from "vscode";
import { LocalServer } from "./core/localServer.js";
import { TokenRate } from "./core/status.js";
import { BelowView } from "./editor/belowView.js";
import { Commands } from "./editor/commands.js";
import { bindContexts } from "./editor/contexts.js";
import { Diagnostics } from "./editor/diagnostics.js";
import { DiffView } from "./editor/diffView.js";
import { Drawing } from "./editor/drawing.js";
import { Lenses } from "./editor/lenses.js";
import { Notices } from "./editor/notices.js";
import { Pages } from "./editor/pages.js";
import { Replies } from "./editor/replies.js";
import { Requests } from "./editor/requests.js";
import { bindStatus } from "./editor/reviewStatus.js";
import { Reviews } from "./editor/reviews.js";
import { bindServer, programNamed } from "./editor/servers.js";
import { ApiKeys } from "./editor/settings.js";
import { StatusBar } from "./editor/statusBar.js";

export function activate(context: vscode.ExtensionContext): void {
  const log = vscode.window.createOutputChannel("Apply Service", { log: true });
  const notices = new Notices(log);
  const reviews = new Reviews(notices);
  const pages = new Pages();
  const diffView = new DiffView(pages, reviews);
  const belowView = new BelowView(pages, reviews);
  const diagnostics = new Diagnostics(reviews);
  const statusBar = new StatusBar();
  const keys = new ApiKeys(context.secrets);
  const server = new LocalServer(
    (line) => log.info(line),
    programNamed,
    (state) => statusBar.setServer(state),
  );
  const views = { statusBar, diffView, belowView, rate: new TokenRate() };
  const requests = new Requests({ reviews, diagnostics, notices, keys, server, views, log });
  const replies = new Replies({ requests, reviews, notices, keys, server });
  const commands = new Commands({ requests, replies, reviews, diffView, belowView, pages, notices, keys, log });
  context.subscriptions.push(
    log,
    { dispose: () => void server.stop() },
    pages,
    reviews,
    diffView,
    belowView,
    diagnostics,
    statusBar,
    requests,
    new Drawing(reviews),
    new Lenses(reviews, belowView),
    bindStatus(reviews, statusBar),
    bindContexts(reviews, requests),
    bindServer(server, notices),
    commands.register(),
  );
}
