#!/usr/bin/env bash
# Checks the packages: builds for other systems, a reproducible release build, a snapshot of a
# release, the alerts, the systemd unit and its socket. A tool that is not installed is named as
# skipped. --short builds for this system alone: bash ops/check.sh [--short]
set -euo pipefail
cd "$(dirname "$0")/.."
short=${1:-}
goreleaser=v2.15.1
syft=v1.57.1
crane=v0.22.1
base=gcr.io/distroless/static-debian12:nonroot

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
step() { printf '\n== %s\n' "$*"; }
skip() { printf 'skipped: %s is not installed\n' "$1"; }
installed() { command -v "$1" >/dev/null; }
commit=$(git describe --always --abbrev=40 --exclude='*' --dirty=+changed)
flags=$(sed "s/-funcalign=16/& -X main.releaseCommit=$commit/" ops/goflags)
release() { CGO_ENABLED=0 GOFLAGS=$flags go build -buildvcs=false -o "$1" ./cmd/eyelet; }
torture() { CGO_ENABLED=0 GOFLAGS=$flags go build -C torture -buildvcs=false -o "$1" .; }
names() { "$1" version && "$1" version -o json | grep -qF "\"commit\":\"$2\""; } # names BINARY COMMIT

if [ "$short" != --short ]; then
	step "builds for other systems"
	for system in windows/amd64 darwin/arm64 freebsd/amd64 linux/arm64; do
		GOOS=${system%/*} GOARCH=${system#*/} release "$dir/other"
		GOOS=${system%/*} GOARCH=${system#*/} torture "$dir/other-torture"
		echo "$system"
	done
fi

step "two release builds are equal"
release "$dir/eyelet"
torture "$dir/eyelet-torture"
mkdir "$dir/copy"
git ls-files -coz --exclude-standard | xargs -0 cp --parents -t "$dir/copy"
(
	cd "$dir/copy"
	if [ "$short" != --short ]; then export GOCACHE=$dir/cache; fi # compile all of it again
	release "$dir/again"
	torture "$dir/again-torture"
)
sha256sum "$dir/eyelet" "$dir/again" | cut -d' ' -f1
cmp "$dir/eyelet" "$dir/again"
cmp "$dir/eyelet-torture" "$dir/again-torture"
"$dir/eyelet-torture" --rounds 1 --dir "$dir" >/dev/null 2>"$dir/log" || { cat "$dir/log"; exit 1; }
size=$(stat -c %s "$dir/eyelet")
echo "$size bytes"
[ "$size" -le 32000000 ] || { echo "more than 32 MB"; exit 1; }

step "the version names the commit"
names "$dir/eyelet" "$commit"
git clone -q . "$dir/clone" # go does not ask git in a work tree
GOFLAGS=$(<ops/goflags) CGO_ENABLED=0 go build -C "$dir/clone" -buildvcs=true -o "$dir/of-clone" ./cmd/eyelet
names "$dir/of-clone" "${commit%+changed}"

step "the demo of the inspector"
"$dir/eyelet" demo --out "$dir/demo"
echo "$(ls "$dir/demo" | wc -l) files"

step "release"
if ! installed goreleaser; then
	skip "goreleaser (go install github.com/goreleaser/goreleaser/v2@$goreleaser)"
elif [ "$short" = --short ]; then
	goreleaser check --quiet
else
	installed syft || skip "syft (go install github.com/anchore/syft/cmd/syft@$syft)"
	if ! go run "github.com/google/go-containerregistry/cmd/crane@$crane" digest "$base" >/dev/null 2>&1; then
		echo "skipped: $base cannot be reached from here; the image has a base of its own"
		export EYELET_BASE=scratch
	fi
	bash ops/release.sh --snapshot
	EYELET_DIST=$PWD/dist go test -count=1 -v -run TestRelease .
	dpkg-deb -c dist/eyelet_linux_amd64.deb | grep -E ' ./usr/(bin/eyelet|lib/systemd/system/eyelet.service)$'
	if installed rpm; then rpm -qlp dist/eyelet_linux_arm64.rpm | grep /usr/bin/eyelet; else skip rpm; fi
fi

step "another module path"
git -C "$dir/copy" init -q
git -C "$dir/copy" add .
bash "$dir/copy/ops/publish-path.sh" github.com/acme/hooks
(
	cd "$dir/copy"
	grep '`go install github.com/acme/hooks/cmd/eyelet@latest`' README.md | cut -c 1-80
	if grep -E 'provisional|<!--' README.md || git grep -n eyelet-dev/eyelet; then exit 1; fi
	if [ "$short" = --short ]; then go list -test -deps ./... >/dev/null; else go build ./... && go vet .; fi
)

step "Dockerfile"
if installed hadolint; then
	hadolint ops/Dockerfile
elif installed npx; then
	npx --yes dockerfile-utils@0.16.3 lint ops/Dockerfile
else
	skip "hadolint, or npx for dockerfile-utils"
fi

step "alerts"
if installed promtool; then promtool check rules ops/alerts.yaml; else skip promtool; fi

step "kustomize"
GITHUB_SECRET=not-a-real-secret "$dir/eyelet" config check --config ops/kustomize/eyelet.yaml
if installed kustomize; then kustomize build ops/kustomize >/dev/null; else skip kustomize; fi

step "systemd"
if installed systemd-analyze; then
	sed "s|/usr/bin/eyelet|$dir/eyelet|" ops/eyelet.service >"$dir/eyelet.service"
	cp ops/eyelet.socket "$dir"
	systemd-analyze verify "$dir/eyelet.service" "$dir/eyelet.socket"
	systemd-analyze security --offline=true --threshold=25 "$dir/eyelet.service" | tail -n 1
else
	skip systemd-analyze
fi

step "a socket of systemd"
if installed systemd-socket-activate; then
	cat >"$dir/eyelet.yaml" <<-'YAML'
		listen: 127.0.0.1:18443
		operations: "off"
		store: "memory:"
		producers:
		  github: {preset: github, secret: [not-a-real-secret]}
	YAML
	systemd-socket-activate -l 127.0.0.1:18443 "$dir/eyelet" serve --config "$dir/eyelet.yaml" 2>"$dir/log" &
	server=$!
	for _ in $(seq 300); do # 503 while the store is opened
		status=$(curl -s -m 30 -o /dev/null -w '%{http_code}' http://127.0.0.1:18443/policy) || true
		[ "$status" = 200 ] && break
		sleep 0.1
	done
	kill $server && wait $server || { cat "$dir/log"; exit 1; }
	echo "GET /policy: $status"
	[ "$status" = 200 ] || { cat "$dir/log"; exit 1; }
else
	skip systemd-socket-activate
fi
