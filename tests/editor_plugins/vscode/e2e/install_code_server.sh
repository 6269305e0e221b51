#!/bin/sh
# VS Code for the browser, as code-server, into FOLDER: what the end-to-end tests drive.  About 320 MB and two minutes.
# Needs node 20 with its headers, npm, make, a C++ compiler, libkrb5-dev, ripgrep and Chromium.
#
# Its own install script does not run as root and fetches a ripgrep of its own, so that its steps are done one by one here;
# only the native modules that the server loads are built.
set -eu
FOLDER=${1:?usage: install_code_server.sh FOLDER}
VERSION=4.100.3
STAMP=.installed-$VERSION
[ -e "$FOLDER/$STAMP" ] && exit 0

missing=
for program in node npm make g++ rg; do
  command -v "$program" > /dev/null || missing="$missing $program"
done
if [ -z "${CHROMIUM:-}" ] && ! command -v chromium > /dev/null && ! command -v chromium-browser > /dev/null; then
  missing="$missing chromium"
fi
if [ -n "$missing" ]; then
  echo "VS Code can't be installed here, these programs are missing:$missing" >&2
  echo "On Debian: apt-get install nodejs npm chromium libkrb5-dev ripgrep g++ make" >&2
  exit 1
fi

export npm_config_audit=false npm_config_fund=false npm_config_unsafe_perm=true
[ -d /usr/include/node ] && export npm_config_nodedir=/usr
mkdir -p "$FOLDER"
cd "$FOLDER"
[ -e package.json ] || echo '{"private": true}' > package.json
npm install --ignore-scripts --no-package-lock "code-server@$VERSION"
npm rebuild argon2

cd node_modules/code-server/lib/vscode
npm install --omit=dev --ignore-scripts
for module in @vscode/spdlog native-watchdog @vscode/deviceid kerberos node-pty; do
  # node-pty's build ends with an error after its module is in place, and the tests need no terminal.
  [ -d "node_modules/$module" ] && { npm rebuild "$module" || echo "$module was not built; going on"; }
done
mkdir -p node_modules/@vscode/ripgrep/bin
ln -sf "$(command -v rg)" node_modules/@vscode/ripgrep/bin/rg
ln -sfn node_modules node_modules.asar
(cd bin/remote-cli && ln -sf code-linux.sh code-server)
(cd bin/helpers && ln -sf browser-linux.sh browser.sh)
(cd extensions && npm install --omit=dev --ignore-scripts)
cd ../../../..
touch "$STAMP"
