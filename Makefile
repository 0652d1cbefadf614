# The two that matter: `make run` and `make test`. CI runs the second on a clean clone.
BIN := target/release/menzil

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

bench: build
	scripts/bench

soak:
	scripts/soak

differential: build
	scripts/differential
