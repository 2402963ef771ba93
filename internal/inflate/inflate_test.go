// SPDX-License-Identifier: Apache-2.0

package inflate_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"testing/iotest"

	"github.com/capi-installer/capi-installer/internal/inflate"
)

// decompress reads a stream to its end.
func decompress(source io.Reader) ([]byte, error) {
	r, err := inflate.NewReader(source)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// oracle is decompress with the standard library.
func oracle(source io.Reader) ([]byte, error) {
	r, err := gzip.NewReader(source)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// agrees fails the test unless both accept or reject a stream, with the same content.
func agrees(t *testing.T, stream []byte) {
	t.Helper()
	want, wantErr := oracle(bytes.NewReader(stream))
	got, err := decompress(bytes.NewReader(stream))
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("error %v, want %v", err, wantErr)
	}
	if err == nil && !bytes.Equal(got, want) {
		t.Fatalf("%d bytes differ from the %d that the standard library reads", len(got), len(want))
	}
}

// compressed returns a gzip stream.
func compressed(t testing.TB, content []byte, level int) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, level)
	if err == nil {
		_, err = w.Write(content)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// contents are bytes of several kinds: a program, random digits, random bytes, runs, and repetitions at the largest distance.
func contents(t testing.TB) map[string][]byte {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var digits, noise, skewed bytes.Buffer
	for digits.Len() < 1<<20 {
		fmt.Fprintf(&digits, "%016x", random.Uint64())
		noise.WriteByte(byte(random.Uint32()))
		for n := byte(0); n < 255; n++ { // codes of up to 15 bits
			if skewed.WriteByte(n); random.IntN(2) == 0 {
				break
			}
		}
	}
	far := make([]byte, 32<<10)
	for i := range far {
		far[i] = byte(random.Uint32())
	}
	return map[string][]byte{
		"empty": nil, "one byte": {7}, "program": program[:min(len(program), 4<<20)], "digits": digits.Bytes(), "noise": noise.Bytes(), "skewed": skewed.Bytes(),
		"run": bytes.Repeat([]byte{0}, 1<<20), "far": bytes.Repeat(far, 20),
	}
}

func TestReader_AgreesWithStandardLibrary(t *testing.T) {
	for name, content := range contents(t) {
		for _, level := range []int{flate.HuffmanOnly, flate.NoCompression, 1, 6, 9} {
			t.Run(fmt.Sprintf("%s/level %d", name, level), func(t *testing.T) {
				stream := compressed(t, content, level)
				got, err := decompress(bytes.NewReader(stream))
				if err != nil || !bytes.Equal(got, content) {
					t.Fatalf("got %d bytes and error %v, want %d bytes", len(got), err, len(content))
				}
				twice := append(bytes.Clone(stream), stream...)
				agrees(t, twice)
				agrees(t, append(twice, "garbage that is not gzip"...))
			})
		}
	}
}

// TestReader_ReadsPieces: it does not matter how many bytes the source returns at once.
func TestReader_ReadsPieces(t *testing.T) {
	content := contents(t)["program"][:300<<10]
	stream := compressed(t, content, 6)
	for name, source := range map[string]io.Reader{
		"one byte": iotest.OneByteReader(bytes.NewReader(stream)), "half": iotest.HalfReader(bytes.NewReader(stream)),
		"with EOF": iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		if got, err := decompress(source); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: got %d bytes and error %v, want %d bytes", name, len(got), err, len(content))
		}
	}
}

// TestReader_RejectsDamage truncates a stream at each byte, and flips bits at each byte.
func TestReader_RejectsDamage(t *testing.T) {
	content := contents(t)["program"][:2<<10]
	for _, level := range []int{flate.HuffmanOnly, flate.NoCompression, 6} {
		stream := compressed(t, content, level)
		for at := range stream {
			agrees(t, stream[:at])
			damaged := bytes.Clone(stream)
			damaged[at] ^= byte(1 + at%255)
			agrees(t, damaged)
		}
	}
}

// TestReader_ReturnsErrorOfSource: an error of the source is neither a truncated nor a complete stream, wherever it occurs.
func TestReader_ReturnsErrorOfSource(t *testing.T) {
	stream, broken := compressed(t, []byte("content"), 6), errors.New("broken connection")
	for at := range len(stream) + 1 {
		_, err := decompress(io.MultiReader(bytes.NewReader(stream[:at]), iotest.ErrReader(broken)))
		if !errors.Is(err, broken) {
			t.Errorf("after %d bytes: got error %v, want %v", at, err, broken)
		}
	}
}

func TestReader_Errors(t *testing.T) {
	stream := compressed(t, []byte("content"), 6)
	wrong := bytes.Clone(stream)
	wrong[len(wrong)-1] ^= 1
	for name, c := range map[string]struct {
		stream []byte
		want   error
	}{
		"no stream": {nil, io.EOF}, "other format": {[]byte("text that is not compressed"), gzip.ErrHeader},
		"truncated": {stream[:len(stream)-1], io.ErrUnexpectedEOF}, "other size": {wrong, gzip.ErrChecksum},
	} {
		if _, err := decompress(bytes.NewReader(c.stream)); !errors.Is(err, c.want) {
			t.Errorf("%s: got error %v, want %v", name, err, c.want)
		}
	}
}

// FuzzReader compares with the standard library. The first byte chooses between a whole stream and the content of a member with a
// valid header.
func FuzzReader(f *testing.F) {
	for _, content := range contents(f) {
		stream := compressed(f, content[:min(len(content), 4<<10)], 6)
		f.Add(append([]byte{0}, stream...))
		f.Add(append([]byte{1}, stream[10:]...))
	}
	header := []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		if stream := data[1:]; data[0]&1 == 0 {
			agrees(t, stream)
		} else {
			agreesOnContent(t, append(bytes.Clone(header), stream...))
		}
	})
}

// agreesOnContent is agrees for a member whose checksum is wrong in nearly all cases: the content before the checksum must be equal.
func agreesOnContent(t *testing.T, stream []byte) {
	t.Helper()
	want, wantErr := oracle(bytes.NewReader(stream))
	got, err := decompress(bytes.NewReader(stream))
	if errors.Is(err, gzip.ErrChecksum) != errors.Is(wantErr, gzip.ErrChecksum) || (err == nil) != (wantErr == nil) {
		t.Fatalf("error %v, want %v", err, wantErr)
	}
	if (err == nil || errors.Is(err, gzip.ErrChecksum)) && !bytes.Equal(got, want) {
		t.Fatalf("%d bytes differ from the %d that the standard library reads", len(got), len(want))
	}
}

func BenchmarkReader(b *testing.B) {
	all := contents(b)
	for _, name := range []string{"program", "digits", "noise"} {
		stream := compressed(b, all[name], 6)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(all[name])))
			for b.Loop() {
				r, err := inflate.NewReader(bytes.NewReader(stream))
				if err == nil {
					_, err = io.Copy(io.Discard, r)
					_ = r.Close()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
