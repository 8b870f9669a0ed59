# `make image` builds this from a context that has the dependencies in vendor/, so that
# it needs no network beyond its base image, and no proxy or credentials inside. From
# the plain checkout it works as well and downloads the modules.
FROM golang:1.26 AS build
WORKDIR /src
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath \
      -ldflags "-s -w -X github.com/drydock-dev/drydock/pkg/app.Version=${VERSION}" \
      -o /drydock ./cmd/drydock

FROM scratch
# For API servers whose certificate was issued by a public authority.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /drydock /drydock
USER 65532:65532
ENTRYPOINT ["/drydock"]
