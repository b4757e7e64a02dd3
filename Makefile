# The verbs of this project. `make run` and `make test` need Python 3.11+, git and make; nothing else installed.
PYTHON ?= python3
BIN = .venv/bin
PIP = $(BIN)/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
# Python compiles what is imported, once; pip would compile all that is installed, which doubles the installation.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run exports test notebooks coverage lowest empty package soak check bench docs pictures clean

run: .venv/run              ## train the first experiment and write its report
	$(BIN)/gnomon run grok-digits

exports: .venv/run          ## the tables of what is public, and of experiments, which follow from the sources
	$(BIN)/python tools/exports.py

# Three workers also on two cores: many tests wait for processes of their own.
test: .venv/test            ## all tests, those of units with the shapes checked at run time
	$(BIN)/python -m pytest -n 3 --dist worksteal --jaxtyping-packages=gnomon,beartype.beartype

notebooks: .venv/dev        ## execute those of docs/notebooks, in two minutes, and keep what they print and draw
	OMP_NUM_THREADS=1 $(BIN)/python tools/notebooks.py

empty:                      ## what works without any extra, in an environment of its own
	$(PYTHON) -m venv --clear .empty
	.empty/bin/pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	.empty/bin/pip install --quiet --disable-pip-version-check -c constraints.txt .
	cd .empty && bin/python ../tests/empty_environment.py
	rm -rf .empty

package:                    ## wheel and sdist into dist, and what is in them used outside this folder
	$(PYTHON) -m venv --clear .package
	.package/bin/pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0 build
	rm -rf dist
	.package/bin/python -m build --outdir dist . > /dev/null
	.package/bin/pip install --quiet --disable-pip-version-check -c constraints.txt dist/gnomon-*.whl
	cd .package && bin/python ../tests/installed_package.py
	rm -rf .package

coverage: .venv/test        ## which lines no test runs in its own process, in coverage.txt and coverage.xml
	$(BIN)/python -m pytest -n 2 --cov=gnomon --cov=gnomon_lab --cov-report=xml --cov-report=term-missing:skip-covered > coverage.txt; \
	code=$$?; tail -n 3 coverage.txt; exit $$code

LOWEST = uv pip install --quiet --python .lowest --resolution lowest-direct --torch-backend cpu 'pytest>=8' 'pytest-timeout>=2.3' 'beartype>=0.19' 'import-linter>=2.6'
LOWEST_TESTS = .lowest/bin/python -m pytest -p no:cacheprovider -o filterwarnings=
lowest:                     ## the lowest versions that pyproject.toml allows, without integrations, in an environment of its own; needs uv
	uv venv --quiet --clear --python 3.11 .lowest
	$(LOWEST) -e '.[attack,data,lab,pandas]' 'datasets==3.*' 'pyarrow==15.*'
	$(LOWEST_TESTS) tests/lab --ignore=tests/lab/test_sweep.py --ignore=tests/lab/test_soak.py
	$(LOWEST) -e '.[data,pandas,plot]' 'scikit-learn==1.6.*' 'datasets==3.*' 'pyarrow==15.*' torch==2.8.0
	$(LOWEST_TESTS) tests/unit --ignore=tests/unit/test_docs.py --ignore=tests/unit/test_notebooks.py
	rm -rf .lowest

MINUTES ?= 60
SEED ?= 0
soak: .venv/test            ## kill runs, alter files, feed nonsense to all that is public: MINUTES=60, and on from there
	$(BIN)/python -m soak --minutes $(MINUTES) --seed $(SEED)

check: .venv/dev            ## what must be clean before a commit
	$(BIN)/ruff format --check .
	$(BIN)/ruff format --check --line-length 90 *.md docs/*.md docs/*/*.md docs/*/*.ipynb
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/pages.py

bench: .venv/dev            ## speeds beside the peers', as ratios in one process
	for file in benchmarks/[!t]*.py; do $(BIN)/python $$file || exit 1; done

docs: .venv/dev             ## the documentation, on a local port
	$(BIN)/mkdocs serve

pictures: .venv/dev         ## those of docs/quantities and docs/regions.md, from runs of their own, in four minutes, that of benchmarks/scale.py, and those of docs/plot.md
	OMP_NUM_THREADS=1 $(BIN)/python docs/pictures
	$(BIN)/python docs/pictures/scale.py
	$(BIN)/python docs/pictures/page.py

clean:                      ## everything that is made but runs and the soak's folder
	rm -rf .venv .empty .lowest .package .pytest_cache .mypy_cache .ruff_cache .import_linter_cache site dist \
		.coverage coverage.txt coverage.xml

.venv/pip:
	$(PYTHON) -m venv .venv
	$(PIP) --upgrade pip
	touch $@

# The extras that follow are those of the gnomon that is installed then, which need not be built again for them.
.venv/run: .venv/pip pyproject.toml constraints.txt
	$(PIP) -e '.[lab]'
	touch $@

.venv/test: .venv/run
	$(PIP) 'gnomon[test]'
	touch $@

.venv/dev: .venv/test
	$(PIP) 'gnomon[dev]'
	touch $@
