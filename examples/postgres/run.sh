#!/usr/bin/env bash
# Two receivers and one database: delivers payments to both, every third one twice, kills a receiver meanwhile,
# and compares the counter with the payments. The number of payments is the argument, 60 without one.
#
# Needs Go and PostgreSQL 15 or newer. Set DATABASE_URL to use a database of your own, whose schema "eyelet" and
# table "counter" are then made. Otherwise a server runs in a temporary folder, which only this machine can reach.
set -euo pipefail
cd "$(dirname "$0")/../.."

payments=${1:-60}
one=http://127.0.0.1:${PORT_ONE:-8091}/webhooks/standard-webhooks
two=http://127.0.0.1:${PORT_TWO:-8092}/webhooks/standard-webhooks
work=$(mktemp -d)
run=$$-$(date +%s)
bin=
receivers=()

cleanup() {
	for pid in ${receivers[@]+"${receivers[@]}"}; do kill "$pid" 2>/dev/null || true; done
	[ -z "$bin" ] || as_user "$bin/pg_ctl" -D "$work/db/data" -m immediate stop >/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT

# as_user runs a program of PostgreSQL, which refuses to run as root.
as_user() {
	if [ "$(id -u)" = 0 ]; then (cd / && runuser -u postgres -- "$@"); else "$@"; fi
}

start_database() {
	local found
	found=$(command -v initdb || ls -d /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb \
		/opt/homebrew/opt/postgresql@*/bin/initdb 2>/dev/null | sort -V | tail -n 1)
	[ -n "$found" ] || { echo "initdb was not found: install PostgreSQL, or set DATABASE_URL" >&2; exit 1; }
	bin=$(dirname "$found")
	PATH=$PATH:$bin
	mkdir "$work/db"
	chmod 711 "$work"
	[ "$(id -u)" != 0 ] || chown postgres "$work/db"
	as_user "$bin/initdb" -D "$work/db/data" -U eyelet -A trust -E UTF8 --locale=C >/dev/null
	as_user "$bin/pg_ctl" -D "$work/db/data" -l "$work/db/log" -w \
		-o "-k $work/db -c listen_addresses=" start >/dev/null
	export DATABASE_URL="postgres://eyelet@/postgres?host=$work/db"
}

query() { psql "$DATABASE_URL" -XqAtc "$1"; }

send() { # ID URL
	"$work/eyelet" send "$work/payment.json" --config "$work/eyelet.yaml" --producer standard-webhooks \
		--id "payment-$run-$1" --url "$2" >/dev/null 2>&1
}

# deliver delivers a payment until a receiver has accepted it, as a producer does.
deliver() {
	local first=$one second=$two
	if [ $(($1 % 2)) = 1 ]; then first=$two second=$one; fi
	until send "$1" "$first" || send "$1" "$second"; do sleep 0.2; done
	if [ $(($1 % 3)) = 0 ]; then send "$1" "$second" || true; fi
}

[ -n "${DATABASE_URL:-}" ] || start_database
export BANK_SECRET=whsec_$(head -c 24 /dev/urandom | base64)
go build -o "$work/eyelet" ./cmd/eyelet
go build -o "$work/receiver" ./examples/postgres
echo '{"type":"payment","data":{"cents":250}}' >"$work/payment.json"
cat >"$work/eyelet.yaml" <<'YAML'
store: ${DATABASE_URL}
producers:
  standard-webhooks: {preset: standard-webhooks, secret: ["${BANK_SECRET}"]}
YAML
"$work/eyelet" store migrate --config "$work/eyelet.yaml" >/dev/null
query "SET client_min_messages = error; CREATE TABLE IF NOT EXISTS counter (payments int8, cents int8)"
query "INSERT INTO counter SELECT 0, 0 WHERE NOT EXISTS (SELECT FROM counter)"
before=$(query "SELECT payments FROM counter")

for port in "${PORT_ONE:-8091}" "${PORT_TWO:-8092}"; do
	"$work/receiver" "127.0.0.1:$port" 2>>"$work/log" &
	receivers+=($!)
	disown
done
for i in $(seq "$payments"); do
	while [ "$(jobs -rp | wc -l)" -ge 8 ]; do sleep 0.05; done
	deliver "$i" &
	if [ "$i" = $((payments / 3)) ]; then
		kill -9 "${receivers[0]}"
		echo "receiver 1 was killed after $((i - 1)) of $payments payments"
	fi
done
wait

for _ in $(seq 600); do # until every task has its outcome
	[ "$(query "SELECT count(*) FROM eyelet.task WHERE ended IS NULL")" != 0 ] || break
	sleep 0.1
done
counted=$(($(query "SELECT payments FROM counter") - before))
echo "$payments payments were delivered, $((payments / 3)) of them twice; the counter counted $counted"
[ "$counted" = "$payments" ] || { cat "$work/log" >&2; exit 1; }
