// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"github.com/ulikunitz/xz"
)

// xzStreams returns xz streams with each kind of check, several blocks, sizes in headers, padding and several streams.
func xzStreams(t testing.TB) map[string][]byte {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	content := bytes.Repeat([]byte("a layer of an image, "), 10)
	for range 50 {
		content = append(content, byte(random.IntN(256)))
	}
	made := func(config xz.WriterConfig) []byte {
		var out bytes.Buffer
		w, err := config.NewWriter(&out)
		if err == nil {
			_, err = w.Write(content)
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	crc64 := made(xz.WriterConfig{DictCap: 4096, CheckSum: xz.CRC64, BlockSize: 90})
	streams := map[string][]byte{
		"crc64, blocks":     crc64,
		"crc32":             made(xz.WriterConfig{DictCap: 4096, CheckSum: xz.CRC32}),
		"sha256":            made(xz.WriterConfig{DictCap: 4096, CheckSum: xz.SHA256}),
		"no check":          made(xz.WriterConfig{DictCap: 4096, NoCheckSum: true}),
		"streams, padding":  slices.Concat(crc64, make([]byte, 8), crc64, make([]byte, 4)),
		"padding of 3":      slices.Concat(crc64, make([]byte, 3)),
		"data after stream": slices.Concat(crc64, []byte("data")),
	}
	if program, err := exec.LookPath("xz"); err == nil { // another encoder, with sizes in the headers of blocks
		cmd := exec.CommandContext(t.Context(), program, "--stdout", "--threads=2", "--block-size=90", "--check=sha256")
		cmd.Stdin = bytes.NewReader(content)
		if streams["xz program"], err = cmd.Output(); err != nil {
			t.Fatal(err)
		}
	}
	return streams
}

// TestDecompress_XZAsLibrary: complete, truncated and changed streams have the content or the error of the library.
func TestDecompress_XZAsLibrary(t *testing.T) {
	for name, stream := range xzStreams(t) {
		t.Run(name, func(t *testing.T) {
			compareXZ(t, stream, "complete")
			for at := len(xzMagic); at < len(stream); at += 3 { // the library allocates 8 MiB for each
				changed := bytes.Clone(stream)
				changed[at] ^= byte(1 + at%255)
				compareXZ(t, stream[:at], "truncated "+strconv.Itoa(at))
				compareXZ(t, changed, "changed "+strconv.Itoa(at))
			}
		})
	}
}

func compareXZ(t testing.TB, stream []byte, name string) {
	t.Helper()
	got, err := readDecompressed(t, bytes.NewReader(stream))
	var want []byte
	r, wantErr := xz.NewReader(bytes.NewReader(stream))
	if wantErr == nil {
		want, wantErr = io.ReadAll(r)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) && wantErr == nil && bytes.Equal(got, want) {
		return // the library takes a stream that ends in the header of a block for complete
	}
	if (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want) {
		t.Errorf("%s: got %d bytes, %v, want %d bytes, %v", name, len(got), err, len(want), wantErr)
	}
}

// xzBlocks returns a stream of n empty blocks whose dictionaries have a size that is coded as d.
func xzBlocks(n int, d byte) []byte {
	sum := func(p []byte) []byte { return binary.LittleEndian.AppendUint32(p, crc32.ChecksumIEEE(p)) }
	block := slices.Concat(sum([]byte{2, 0, 0x21, 1, d, 0, 0, 0}), []byte{0, 0, 0, 0})
	index := binary.AppendUvarint([]byte{0}, uint64(n))
	for range n {
		index = append(index, 13, 0)
	}
	for len(index)%4 != 0 {
		index = append(index, 0)
	}
	index = sum(index)
	footer := append(binary.LittleEndian.AppendUint32(nil, uint32(len(index)/4-1)), 0, 0)
	stream := slices.Concat([]byte(xzMagic), sum([]byte{0, 0}), bytes.Repeat(block, n), index)
	return slices.Concat(stream, binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(footer)), footer, []byte(xzEnd))
}

func TestDecompress_LimitsXZDictionaries(t *testing.T) {
	const mib32, gib4 = 26, 40
	compareXZ(t, xzBlocks(2, mib32), "two dictionaries of 32 MiB")
	if content, err := readDecompressed(t, bytes.NewReader(xzBlocks(1, gib4))); err != nil || len(content) > 0 {
		t.Errorf("a dictionary of 4 GiB that is not used: got %d bytes, %v", len(content), err)
	}
	_, err := readDecompressed(t, bytes.NewReader(xzBlocks(3, gib4)))
	if _, limited := errors.AsType[*LimitError](err); !limited {
		t.Errorf("three dictionaries without content: got %v, want a LimitError", err)
	}
}

func FuzzDecompress_XZ(f *testing.F) {
	for _, stream := range xzStreams(f) {
		f.Add(stream)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		if !bytes.HasPrefix(stream, []byte(xzMagic)) {
			return
		}
		_, err := readDecompressed(t, bytes.NewReader(stream))
		if _, limited := errors.AsType[*LimitError](err); !limited { // the library could allocate 4 GiB
			compareXZ(t, stream, "stream")
		}
	})
}
