# The two that matter: `make run` and `make test`. CI runs the second on a clean clone.
BIN := target/release/menzil

# Nothing stays in memory and everything on disk is small: what only happens at scale happens at once.
TINY := --set body_cache_bytes=0 --set index_page_entries=4 --set index_bytes_max=0 --set "segment_bytes=64 KiB"

.PHONY: run build test lint unit interop bench soak differential

run: build
	$(BIN) server

build:
	cargo build --release --locked -p menzil

test: lint unit interop

lint:
	scripts/lint

unit:
	cargo test --workspace --locked --no-fail-fast

interop: build
	tests/interop/run --broker menzil --binary $(BIN)
	tests/interop/run --broker menzil --binary $(BIN) --only cases $(TINY)

bench: build
	scripts/bench

soak:
	scripts/soak

differential: build
	scripts/differential
