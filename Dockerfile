# `make image` compiles the program for each architecture and builds this, which adds it to
# nothing: no base image, so no network, no package to patch, no shell. Any builder that
# sets TARGETARCH will do, and none needs a daemon.
FROM scratch
ARG TARGETARCH
COPY linux-${TARGETARCH}/drydock /drydock
USER 65532:65532
ENTRYPOINT ["/drydock"]
