// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestDecompress_GzipAsStandardLibrary: streams with several members, truncated at each byte, with a changed byte, and with bytes
// after their end have the content or the error that the standard library reports.
func TestDecompress_GzipAsStandardLibrary(t *testing.T) {
	var member bytes.Buffer
	w := gzip.NewWriter(&member)
	if _, err := io.WriteString(w, strings.Repeat("a layer of an image, ", 50)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	stream := append(bytes.Clone(member.Bytes()), member.Bytes()...)
	streams := [][]byte{stream, append(bytes.Clone(stream), "no member"...), append(bytes.Clone(stream), 0, 0, 0)}
	for at := range stream {
		changed := bytes.Clone(stream)
		changed[at] ^= byte(1 + at%255)
		streams = append(streams, changed)
		if at > 1 { // two bytes identify the format
			streams = append(streams, stream[:at])
		}
	}
	for n, stream := range streams {
		got, err := readDecompressed(t, bytes.NewReader(stream))
		want, wantErr := readGzip(bytes.NewReader(stream))
		if !bytes.HasPrefix(stream, []byte{0x1f, 0x8b}) {
			continue
		}
		if (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want) {
			t.Errorf("stream %d: got %d bytes, %v, want %d bytes, %v", n, len(got), err, len(want), wantErr)
		}
	}
}

// TestDecompress_ReturnsErrorOfSource: an error of the source is neither the end of the stream nor a truncation.
func TestDecompress_ReturnsErrorOfSource(t *testing.T) {
	var stream bytes.Buffer
	w := gzip.NewWriter(&stream)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken connection")
	for at := 2; at <= stream.Len(); at++ {
		_, err := readDecompressed(t, io.MultiReader(bytes.NewReader(stream.Bytes()[:at]), iotest.ErrReader(broken)))
		if !errors.Is(err, broken) {
			t.Errorf("after %d bytes: got %v, want %v", at, err, broken)
		}
	}
}

func readDecompressed(t testing.TB, from io.Reader) ([]byte, error) {
	t.Helper()
	r, err := decompress(t.Context(), from)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func readGzip(from io.Reader) ([]byte, error) {
	r, err := gzip.NewReader(from)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
