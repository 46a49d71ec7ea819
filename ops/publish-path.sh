#!/usr/bin/env bash
# Gives the module the path where it is published, in all files, and has README say how to install it:
#   bash ops/publish-path.sh github.com/OWNER/NAME
set -euo pipefail
cd "$(dirname "$0")/.."
if ! [[ ${1:-} =~ ^github\.com/([A-Za-z0-9-]+)/([A-Za-z0-9._-]+)$ ]]; then
	echo "usage: bash ops/publish-path.sh github.com/OWNER/NAME" >&2
	exit 2
fi
owner=${BASH_REMATCH[1]} name=${BASH_REMATCH[2]}
old=$(sed -n 's/^module //p' go.mod)
is=$(cut -d/ -f2- <<<"$old")
git ls-files -z | xargs -0 grep -lIZF "$is" | xargs -0 sed -i "s#$is\b#$owner/$name#g"
sed -i "s#owner: ${is%/*}, name: ${is#*/}#owner: $owner, name: $name#; s#owner: ${is%/*}#owner: $owner#; \
	s#${is%/*}@users#$owner@users#" .goreleaser.yaml
sed -i '/^<!-- shown by ops\/publish-path.sh$/,/^-->$/{/^<!--/d; /^-->$/d}; s/ The module path is provisional: .* names your clone\.//' README.md
