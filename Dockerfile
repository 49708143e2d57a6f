# A server for one model: see docs/guide/production.md.
#
#   docker build -t birds .
#   docker run -p 8766:8766 -e LAPLACIANSHOT_TOKEN=... -v ./birds.lshot:/model.lshot:ro birds
#
# Models with encoders of their own (onnx:FILE) need that file too: mount it and add --encoder.
FROM python:3.12-slim

RUN useradd --create-home --uid 10001 app
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN pip install --no-cache-dir -c constraints.txt ".[studio]" && rm -rf /src
USER app
ENV LAPLACIANSHOT_CACHE=/home/app/cache PYTHONUNBUFFERED=1
# The networks of the two default encoders are converted once, here.
RUN python -c "from laplacianshot.embedding import open_encoder; open_encoder(None, 'pictures'); open_encoder(None, 'texts')"
EXPOSE 8766
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
  CMD python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:8766/health', timeout=3)"
ENTRYPOINT ["laplacianshot", "serve", "--host", "0.0.0.0", "--port", "8766"]
CMD ["/model.lshot"]
