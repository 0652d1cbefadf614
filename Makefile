# The two that matter: `make run` and `make test`. CI runs the second on a clean clone.
BIN := target/release/menzil

# Nothing stays in memory and everything on disk is small: what only happens at scale happens at once.
TINY_SETTINGS := body_cache_bytes=0;index_page_entries=4;index_bytes_max=0;segment_bytes=65536
TINY := $(addprefix --set ,$(subst ;, ,$(TINY_SETTINGS)))

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
	MENZIL_TEST_SETTINGS="$(TINY_SETTINGS)" cargo test --locked -p menzil --test process

interop: build
	tests/interop/run --broker menzil --binary $(BIN)
	tests/interop/run --broker menzil --binary $(BIN) $(TINY)

bench: build
	scripts/bench

soak:
	scripts/soak

differential: build
	scripts/differential
