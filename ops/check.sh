#!/usr/bin/env bash
# Checks the packages: builds for other systems, a reproducible release build, the systemd unit and
# its socket. A tool that is not installed is named as skipped: bash ops/check.sh
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
step() { printf '\n== %s\n' "$*"; }
skip() { printf 'skipped: %s is not installed\n' "$1"; }
release() { CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags='-s -w' -o "$1" ./cmd/eyelet; }

step "builds for other systems"
for system in windows/amd64 darwin/arm64 freebsd/amd64 linux/arm64; do
	GOOS=${system%/*} GOARCH=${system#*/} release "$dir/other"
	echo "$system"
done

step "two release builds are equal"
release "$dir/eyelet"
mkdir "$dir/copy"
git ls-files -coz --exclude-standard | xargs -0 cp --parents -t "$dir/copy"
(cd "$dir/copy" && release "$dir/again")
cmp "$dir/eyelet" "$dir/again"
size=$(stat -c %s "$dir/eyelet")
echo "$((size / 1000000)) MB"
[ "$size" -le 30000000 ] || { echo "more than 30 MB"; exit 1; }

step "Dockerfile"
if command -v hadolint >/dev/null; then hadolint ops/Dockerfile; else skip hadolint; fi

step "alerts"
if command -v promtool >/dev/null; then promtool check rules ops/alerts.yaml; else skip promtool; fi

step "kustomize"
GITHUB_SECRET=not-a-real-secret "$dir/eyelet" config check --config ops/kustomize/eyelet.yaml
if command -v kustomize >/dev/null; then kustomize build ops/kustomize >/dev/null; else skip kustomize; fi

step "systemd"
if command -v systemd-analyze >/dev/null; then
	sed "s|/usr/bin/eyelet|$dir/eyelet|" ops/eyelet.service >"$dir/eyelet.service"
	cp ops/eyelet.socket "$dir"
	systemd-analyze verify "$dir/eyelet.service" "$dir/eyelet.socket"
	systemd-analyze security --offline=true --threshold=25 "$dir/eyelet.service" | tail -n 1
else
	skip systemd-analyze
fi

step "a socket of systemd"
if command -v systemd-socket-activate >/dev/null; then
	cat >"$dir/eyelet.yaml" <<-'YAML'
		listen: 127.0.0.1:18443
		operations: "off"
		store: "memory:"
		producers:
		  github: {preset: github, secrets: [not-a-real-secret]}
	YAML
	systemd-socket-activate -l 127.0.0.1:18443 "$dir/eyelet" serve --config "$dir/eyelet.yaml" 2>"$dir/log" &
	server=$!
	for _ in $(seq 100); do
		status=$(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:18443/policy) && break
		sleep 0.1
	done
	kill $server && wait $server || { cat "$dir/log"; exit 1; }
	echo "GET /policy: $status"
	[ "$status" = 200 ] || { cat "$dir/log"; exit 1; }
else
	skip systemd-socket-activate
fi
