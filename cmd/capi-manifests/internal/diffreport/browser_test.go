// SPDX-License-Identifier: Apache-2.0

package diffreport

import (
	"bytes"
	"fmt"
	picture "image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// browser is a headless Chromium without network access.
type browser struct{ path, dir string }

// newBrowser finds Chromium, without which the rendering of the page is not tested.
func newBrowser(t *testing.T) browser {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-headless-shell", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return browser{path, t.TempDir()}
		}
	}
	t.Skip("SKIPPED: the rendering of the page of diff is not tested, because chromium, chromium-browser and google-chrome are not in PATH (on Debian: apt-get install chromium)")
	return browser{}
}

// run opens a page with flags, and returns what the browser prints.
func (b browser) run(t *testing.T, page string, flags ...string) string {
	t.Helper()
	args := append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--force-device-scale-factor=1",
		"--host-resolver-rules=MAP * ~NOTFOUND", "--user-data-dir=" + filepath.Join(b.dir, "profile"),
	}, append(flags, "file://"+page)...)
	cmd := exec.CommandContext(t.Context(), b.path, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s", b.path, strings.Join(args, " "), err, &stderr)
	}
	return stdout.String()
}

// screenshot renders a page in a color scheme: 0 is dark, 1 is light. The page has no scripts, and its policy forbids
// them.
func (b browser) screenshot(t *testing.T, page string, width, scheme int) picture.Image {
	t.Helper()
	file := filepath.Join(b.dir, fmt.Sprintf("%d-%d.png", width, scheme))
	b.run(t, page, fmt.Sprintf("--window-size=%d,2400", width), fmt.Sprintf("--blink-settings=preferredColorScheme=%d", scheme), "--screenshot="+file)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if keep := os.Getenv("SCREENSHOTS"); keep != "" {
		if err := os.WriteFile(filepath.Join(keep, filepath.Base(file)), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	shown, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return shown
}

// pdf prints a page, and returns the number of printed pages.
func (b browser) pdf(t *testing.T, page string) int {
	t.Helper()
	file := filepath.Join(b.dir, "page.pdf")
	b.run(t, page, "--no-pdf-header-footer", "--print-to-pdf="+file)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(data, []byte("%PDF-")) {
		t.Fatalf("got %.20q, want a PDF", data)
	}
	return len(regexp.MustCompile(`/Type\s*/Page\b`).FindAll(data, -1))
}

// measure opens a page in frames of several widths, with closed and with open details, and reports "width scrolled
// width" for each.
const measure = `<!DOCTYPE html><title>measure</title>
<iframe src="page.html" width="1280" height="800"></iframe><iframe src="page.html" width="400" height="800"></iframe>
<script>
onload = () => {
  let found = ""
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument
    for (const opened of [false, true]) {
      if (opened) page.querySelectorAll("details").forEach(d => d.open = true)
      found += "[" + page.documentElement.clientWidth + " " + page.documentElement.scrollWidth + " " + page.querySelectorAll("details[open]").length + "]"
    }
  }
  document.body.textContent = found
}
</script>
`

// TestHTML_RendersInABrowser renders the page of diff in Chromium. SCREENSHOTS is a folder for the screenshots.
func TestHTML_RendersInABrowser(t *testing.T) {
	b := newBrowser(t)
	html := written(t, reportOfEverything(t), HTML, false, false)
	page := filepath.Join(b.dir, "page.html")
	write := func(file, text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(page, html)

	t.Run("light and dark color scheme", func(t *testing.T) {
		light, dark := b.screenshot(t, page, 1280, 1), b.screenshot(t, page, 1280, 0)
		if n := colorsOf(light); n < 100 {
			t.Errorf("the screenshot has %d colors, want more", n)
		}
		if l, d := brightness(light), brightness(dark); l < 0.8 || d > 0.25 {
			t.Errorf("brightness of the light page %.2f, of the dark one %.2f", l, d)
		}
		if narrow := b.screenshot(t, page, 500, 1); colorsOf(narrow) < 100 {
			t.Error("the narrow screenshot is blank")
		}
	})
	t.Run("not wider than the window", func(t *testing.T) {
		write(filepath.Join(b.dir, "measure.html"), measure)
		dom := b.run(t, filepath.Join(b.dir, "measure.html"), "--allow-file-access-from-files", "--window-size=1800,1000", "--dump-dom")
		found := regexp.MustCompile(`\[(\d+) (\d+) (\d+)\]`).FindAllStringSubmatch(dom, -1)
		if len(found) != 4 {
			t.Fatalf("not measured: %.500s", dom)
		}
		for i, m := range found {
			if m[1] != m[2] {
				t.Errorf("the page is wider than the window of %s pixels: %s (details open: %s)", m[1], m[2], m[3])
			}
			if want := []string{"1280", "1280", "400", "400"}[i]; m[1] != want {
				t.Errorf("the window has %s pixels, not %s", m[1], want)
			}
		}
		if found[0][3] == found[1][3] {
			t.Error("no details element is open")
		}
	})
	t.Run("printed with open details", func(t *testing.T) {
		closed := filepath.Join(b.dir, "closed.html")
		write(closed, strings.ReplaceAll(html, "::details-content", "::nothing"))
		if open, closed := b.pdf(t, page), b.pdf(t, closed); open <= closed {
			t.Errorf("printed on %d pages, and on %d with closed details, want more pages with open ones", open, closed)
		}
	})
}

func colorsOf(shown picture.Image) int {
	colors := map[[3]uint32]bool{}
	eachPixel(shown, func(r, g, b uint32) { colors[[3]uint32{r, g, b}] = true })
	return len(colors)
}

// brightness returns the mean brightness of all pixels, from 0 to 1.
func brightness(shown picture.Image) float64 {
	sum, count := 0.0, 0.0
	eachPixel(shown, func(r, g, b uint32) { sum, count = sum+float64(r+g+b)/3/0xffff, count+1 })
	return sum / count
}

func eachPixel(shown picture.Image, do func(r, g, b uint32)) {
	bounds := shown.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			r, g, b, _ := shown.At(x, y).RGBA()
			do(r, g, b)
		}
	}
}
