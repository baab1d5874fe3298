#!/bin/sh
# The golden cases of single ops, as a separate test, so that both run in parallel. Usage: golden_cases.sh BUILD
exec sh "$(dirname "$0")/golden.sh" "$1" ops
