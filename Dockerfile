# capmeter with the page, METEOR and SPICE.
#   docker build -t capmeter .
#   docker run --rm -v "$PWD:/data" capmeter score results.json --references captions.json
# EXTRAS=all has everything; TORCH_INDEX is the package index to take torch from, such as that of its builds for the CPU.
FROM python:3.12-slim AS wheel
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . ./research

FROM python:3.12-slim
ARG EXTRAS=report,meteor
ARG TORCH_INDEX=
COPY --from=wheel /wheels /wheels
RUN if [ -n "${TORCH_INDEX}" ]; then pip install --no-cache-dir --index-url "${TORCH_INDEX}" "torch>=2.5"; fi \
 && pip install --no-cache-dir "$(echo /wheels/capmeter-*.whl)[${EXTRAS}]" /wheels/capmeter_research-*.whl \
 && rm -rf /wheels \
 && useradd --create-home --uid 1000 capmeter
USER 1000
WORKDIR /data
ENTRYPOINT ["capmeter"]
CMD ["--help"]
