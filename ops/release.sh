#!/usr/bin/env bash
# Builds a release of the tag of this commit in dist/ and publishes nothing: archives, packages, SBOMs,
# an image for two platforms, SHA256SUMS, and the provenance of all of them. Needs goreleaser and syft.
#   bash ops/release.sh [--snapshot]       of any commit, without SBOMs if there is no syft
# EYELET_BASE=scratch makes the image without a base of others, with the certificates of this machine.
# EYELET_BUILDER is the URI of what runs this, for the provenance.
set -euo pipefail
cd "$(dirname "$0")/.."
base=${EYELET_BASE:-gcr.io/distroless/static-debian12:nonroot}
crane_version=v0.22.1
source=https://github.com/eyelet-dev/eyelet
image=ghcr.io/eyelet-dev/eyelet

work=$(mktemp -d)
trap 'rm -rf "$work"; [ -z "${registry:-}" ] || kill "$registry"' EXIT
GOFLAGS='' GOBIN=$work go install "github.com/google/go-containerregistry/cmd/crane@$crane_version"
crane=$work/crane

# goreleaser knows no commit without a remote.
git remote get-url origin >/dev/null 2>&1 ||
	export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.url GIT_CONFIG_VALUE_0=$source
how=(--clean)
[ "${1:-}" = --snapshot ] && how+=(--snapshot) || how+=(--skip=publish)
if [ "${1:-}" = --snapshot ] && ! command -v syft >/dev/null; then how+=(--skip=sbom); fi
SYFT_CHECK_FOR_APP_UPDATE=false goreleaser release "${how[@]}"
version=$(jq -r .version dist/metadata.json)
commit=$(jq -r .commit dist/metadata.json)
date=$(git show -s --format=%ct "$commit")

# The registry is on this machine, in memory. Layers are the same in every build of the commit.
port=15321
"$crane" registry serve --address 127.0.0.1:$port 2>/dev/null &
registry=$!
local=127.0.0.1:$port/eyelet
for _ in $(seq 50); do curl -fs -o /dev/null "http://127.0.0.1:$port/v2/" && break; sleep 0.1; done

pack() { # pack TAR FOLDER MEMBER OWNER MODE appends to a TAR
	tar -rf "$1" -C "$2" --sort=name --mtime="@$date" --numeric-owner --owner="$4" --group="$4" --mode="$5" "$3"
}
if [ "$base" = scratch ]; then
	mkdir -p "$work/base/etc/ssl/certs" "$work/base/tmp"
	cp -L /etc/ssl/certs/ca-certificates.crt "$work/base/etc/ssl/certs"
	echo 'nonroot:x:65532:65532:nonroot:/:/sbin/nologin' >"$work/base/etc/passwd"
	echo 'nonroot:x:65532:' >"$work/base/etc/group"
	pack "$work/base.tar" "$work/base" etc 0 a+rX,u+w
	pack "$work/base.tar" "$work/base" tmp 0 1777
	from=(--oci-empty-base -f "$work/base.tar")
	digest=""
else
	from=(--base "$base")
	digest=$("$crane" digest "$base")
fi
for arch in amd64 arm64; do
	mkdir -p "$work/$arch/usr/bin" "$work/$arch/var/lib/eyelet"
	cp dist/eyelet_linux_"$arch"*/eyelet "$work/$arch/usr/bin"
	pack "$work/$arch.tar" "$work/$arch" usr/bin/eyelet 0 0755
	pack "$work/$arch.tar" "$work/$arch" var/lib/eyelet 65532 0700
	"$crane" append --platform "linux/$arch" "${from[@]}" -f "$work/$arch.tar" -t "$local:$arch"
	"$crane" mutate "$local:$arch" -t "$local:$arch" --set-platform "linux/$arch" --user 65532:65532 \
		--entrypoint /usr/bin/eyelet --cmd serve --env EYELET_CONFIG=/etc/eyelet/eyelet.yaml \
		--exposed-ports 8080/tcp,8081/tcp --label "org.opencontainers.image.source=$source" \
		--label "org.opencontainers.image.version=$version" --label "org.opencontainers.image.revision=$commit"
done
"$crane" index append -m "$local:amd64" -m "$local:arm64" -t "$local:all"
"$crane" pull --format=oci "$local:all" dist/image

# The statement is one of in-toto, with the predicate of SLSA 1.
jq -R -n --arg version "$version" --arg commit "$commit" --arg go "$(go env GOVERSION)" --arg source "$source" \
	--arg image "$image" --arg index "$("$crane" digest "$local:all")" --arg base "$base" --arg digest "$digest" \
	--arg builder "${EYELET_BUILDER:-$source/blob/main/ops/release.sh#local}" '{
	_type: "https://in-toto.io/Statement/v1",
	subject: ([inputs | split("  ") | {name: .[1], digest: {sha256: .[0]}}]
		+ [{name: $image, digest: {sha256: ($index | ltrimstr("sha256:"))}}]),
	predicateType: "https://slsa.dev/provenance/v1",
	predicate: {
		buildDefinition: {
			buildType: "\($source)/blob/main/ops/release.sh",
			externalParameters: {version: $version, base: $base},
			internalParameters: {go: $go},
			resolvedDependencies: ([{uri: "git+\($source)@\($commit)", digest: {gitCommit: $commit}}]
				+ if $digest == "" then [] else [{uri: "pkg:oci/\($base)", digest: {sha256: ($digest | ltrimstr("sha256:"))}}] end)
		},
		runDetails: {builder: {id: $builder}}
	}
}' dist/SHA256SUMS >dist/provenance.json

cat <<END
dist/ has $version of $commit. To sign and publish it:
  cosign attest-blob --statement dist/provenance.json --bundle dist/provenance.sigstore.json
  gh release create v$version dist/*.{tar.gz,zip,deb,rpm,sbom.json} dist/SHA256SUMS dist/provenance.*
  crane push dist/image $image:$version
END
