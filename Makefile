# Thin front door: everything real is in meson.build and in the scripts that the targets name.
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60
SECONDS ?= 600
RUNS ?= 50
FOUND ?= 200
ARGS ?=
JOBS ?= $(shell nproc)

.DEFAULT_GOAL := all

# $(call configure,folder,options): set up once; meson itself re-runs when its files change.
configure = @scripts/setup.sh; test -f $(1)/build.ninja || meson setup $(1) $(2) >/dev/null || { cat $(1)/meson-logs/meson-log.txt; exit 1; }

all: ## build the release into build/
	$(call configure,$(BUILD),-Dbuildtype=release)
	@ninja -C $(BUILD) -j $(JOBS)

demo: all ## a small tour on generated data
	@PLIMSOLL=$(abspath $(BUILD))/plimsoll scripts/demo.sh

check: ## build with internal asserts and run every test; the last line is the count
	$(call configure,build-check,-Dbuildtype=debugoptimized -Ddebug_level=2)
	@ninja -C build-check -j $(JOBS) --quiet
	@tests/run build-check

bench: all ## measure against the baselines
	@scripts/setup.sh bench || true
	@PLIMSOLL=$(abspath $(BUILD))/plimsoll bench/run.sh

bench-arrays: all ## array files: the plain C loop, NumPy and Dask beside plimsoll eval
	@scripts/setup.sh bench-arrays || true
	@PLIMSOLL=$(abspath $(BUILD))/plimsoll bench/run.sh arrays

bench-train: all ## training: PyTorch beside plimsoll train, without a budget and in a quarter of its memory
	@scripts/setup.sh bench-train || true
	@PLIMSOLL=$(abspath $(BUILD))/plimsoll bench/run.sh train

bench-infer: all ## inference: ONNX Runtime beside plimsoll infer, and inside half of its memory
	@scripts/setup.sh bench-infer || true
	@PLIMSOLL=$(abspath $(BUILD))/plimsoll bench/run.sh infer

bench-exact: all ## training at budgets from the smallest up, in memory cgroups: peaks as planned, losses as PyTorch has them
	@scripts/setup.sh bench-train || true
	@PLIMSOLL=$(abspath $(BUILD))/plimsoll bench/run.sh exact

bench-curve: all ## training: time against memory; draws docs/curve.svg
	@scripts/setup.sh bench-train || true
	@PLIMSOLL=$(abspath $(BUILD))/plimsoll bench/curve.sh --svg docs/curve.svg

bench-seconds: all ## planned against measured seconds: trainings, inferences and array programs in memory cgroups (ARGS="--only train-gpt")
	@PLIMSOLL=$(abspath $(BUILD))/plimsoll bench/seconds.sh $(ARGS)

bench-cliffs: all ## training: seconds per step at multiples of the floor, and the smallest bearable budget (ARGS="--planned": no runs)
	@PLIMSOLL=$(abspath $(BUILD))/plimsoll bench/cliffs.sh $(ARGS)

bench-watch: all ## what plimsoll watch costs, beside heaptrack
	@scripts/setup.sh bench-watch || true
	@PLIMSOLL=$(abspath $(BUILD))/plimsoll bench/run.sh watch

bench-pack: all ## static offset assignment on the packing cases
	@PLIMSOLL=$(abspath $(BUILD))/plimsoll bench/run.sh pack

bench-plan: all ## how long planning takes, and how good the order of random-wired cells is
	@PLIMSOLL=$(abspath $(BUILD))/plimsoll bench/run.sh plan

soak: all ## random programs and random nets for SECONDS each; every array case at full size inside memory cgroups as large as the budget; every model at budgets from the smallest up
	@PLIMSOLL=$(abspath $(BUILD))/plimsoll tests/random_programs.sh $(SECONDS)
	@PLIMSOLL=$(abspath $(BUILD))/plimsoll tests/random_nets/soak.sh $(SECONDS)
	@PLIMSOLL=$(abspath $(BUILD))/plimsoll tests/curves.sh
	@PLIMSOLL=$(abspath $(BUILD))/plimsoll tests/durable.sh
	@PLIMSOLL=$(abspath $(BUILD))/plimsoll tests/soak.sh

soak-programs: all ## random programs of the array language against NumPy for SECONDS
	@PLIMSOLL=$(abspath $(BUILD))/plimsoll tests/random_programs.sh $(SECONDS)

soak-nets: all ## random nets for train, infer and plan for SECONDS
	@PLIMSOLL=$(abspath $(BUILD))/plimsoll tests/random_nets/soak.sh $(SECONDS)

soak-fits: all ## random programs and nets at random budgets and numbers of threads, in memory cgroups of exactly the budget, for SECONDS
	@PLIMSOLL=$(abspath $(BUILD))/plimsoll tests/random_fits.sh $(SECONDS)

soak-bits: all ## eval, infer, train and plan, RUNS times each under varied environments, addresses and loads: one hash each
	@PLIMSOLL=$(abspath $(BUILD))/plimsoll tests/same_bits.sh --runs $(RUNS)

soak-combined: all ## random nets until FOUND of them have had a plan that cuts, recomputes and spills at once
	@PLIMSOLL=$(abspath $(BUILD))/plimsoll tests/random_nets/combined.sh $(FOUND)

asan: ## every test under AddressSanitizer and UndefinedBehaviorSanitizer
	$(call configure,build-asan,-Dbuildtype=debugoptimized -Ddebug_level=3 -Db_sanitize=address$(comma)undefined -Db_lundef=false)
	@ninja -C build-asan -j $(JOBS) --quiet
	@ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 tests/run build-asan

tsan: ## every test under ThreadSanitizer
	$(call configure,build-tsan,-Dbuildtype=debugoptimized -Ddebug_level=2 -Db_sanitize=thread -Db_lundef=false)
	@ninja -C build-tsan -j $(JOBS) --quiet
	@TSAN_OPTIONS=halt_on_error=1 tests/run build-tsan

fuzz: ## run every fuzz target for FUZZ_SECONDS each (clang)
	@scripts/setup.sh fuzz
	@test -f build-fuzz/build.ninja || CC=clang meson setup build-fuzz -Dbuildtype=debugoptimized -Ddebug_level=2 -Dfuzz=true \
		-Db_sanitize=address,undefined -Db_lundef=false -Dtests=false >/dev/null
	@ninja -C build-fuzz -j $(JOBS) --quiet
	@scripts/fuzz.sh build-fuzz $(FUZZ_SECONDS)

install: ## install under DESTDIR/PREFIX
	$(call configure,$(BUILD),-Dbuildtype=release)
	@meson configure $(BUILD) -Dprefix=$(PREFIX)
	@ninja -C $(BUILD) -j $(JOBS)
	@DESTDIR=$(DESTDIR) meson install -C $(BUILD) --no-rebuild

clean: ## remove every build folder
	rm -rf $(BUILD) build-check build-asan build-tsan build-fuzz

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

comma := ,

.PHONY: all demo check bench bench-arrays bench-train bench-infer bench-exact bench-curve bench-seconds bench-cliffs bench-watch bench-pack bench-plan soak soak-programs soak-nets soak-fits soak-bits soak-combined asan tsan fuzz install clean help
