#!/usr/bin/env bash
# Run the retrieval gate on the example handbook: index it into a temporary home, compare with the recorded baseline
# and write the report. The exit code is the gate's; the report is written in any case.
#
#   tools/gate.sh [REPORT]                  default log/gate/report.json
#   tools/gate.sh --record                  record a new baseline instead; refused in CI
set -euo pipefail
cd "$(dirname "$0")/.."

whence=${WHENCE:-.venv/bin/whence}
files=examples/gate
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
export WHENCE_HOME=$home WHENCE_COLLECTION=gate
# Settings of the developer must not change the result.
unset WHENCE_DATABASE_URL WHENCE_BROKER WHENCE_EMBEDDER WHENCE_RERANKER

"$whence" index examples/handbook --json > "$home/index.json"
if [ "${1:-}" = --record ]; then
    "$whence" eval baseline --suite $files/suite.json --policy $files/policy.json --out $files/baseline.json
    exit
fi
report=${1:-log/gate/report.json}
mkdir -p "$(dirname "$report")"
"$whence" eval gate --suite $files/suite.json --baseline $files/baseline.json --policy $files/policy.json \
    --report "$report"
