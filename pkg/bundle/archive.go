package bundle

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"path"
	"time"
)

// archive is a tar.gz under construction.
type archive struct {
	zip  *gzip.Writer
	tar  *tar.Writer
	root string
	now  time.Time
}

func newArchive(w io.Writer, root string, now time.Time) *archive {
	zip := gzip.NewWriter(w)
	return &archive{zip: zip, tar: tar.NewWriter(zip), root: root, now: now}
}

// add writes a file.
func (a *archive) add(name string, content []byte) error {
	header := &tar.Header{Name: path.Join(a.root, name), Mode: 0o600, Size: int64(len(content)), ModTime: a.now, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
	if err := a.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	if _, err := a.tar.Write(content); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

func (a *archive) close() error {
	if err := a.tar.Close(); err != nil {
		return fmt.Errorf("ending the archive: %w", err)
	}
	if err := a.zip.Close(); err != nil {
		return fmt.Errorf("ending the archive: %w", err)
	}
	return nil
}
