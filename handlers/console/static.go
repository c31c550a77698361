package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed static
var staticFiles embed.FS

// asset is a file that pages load. Its path names its content, so that a browser may keep it for good.
type asset struct {
	path string // "/static/3f9a0c11-console.css"
	mime string
	body []byte
}

// readStatic returns the files by name.
func readStatic() map[string]asset {
	all := map[string]asset{}
	entries, err := fs.ReadDir(staticFiles, "static")
	if err != nil {
		panic(err) // they are part of the program
	}
	for _, e := range entries {
		body, err := staticFiles.ReadFile("static/" + e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(body)
		kind := map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}[path.Ext(e.Name())]
		if kind == "" {
			kind = "text/plain; charset=utf-8"
		}
		all[e.Name()] = asset{"/static/" + hex.EncodeToString(sum[:4]) + "-" + e.Name(), kind, body}
	}
	return all
}

// file is GET /static/HASH-NAME.
func (c *Console) file(v *visit) error {
	given := "/static/" + v.Param("id")
	_, name, _ := strings.Cut(v.Param("id"), "-")
	a, found := c.static[name]
	if !found || a.path != given {
		return refusal{http.StatusNotFound, "error.not_found", ""}
	}
	v.Response().Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	return v.Blob(http.StatusOK, a.mime, a.body)
}
