package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

func printAll(ctx context.Context, w io.Writer, p plan, all []kind, f figures, dir string) error {
	fmt.Fprintf(w, "medians of %d rounds, all in turns; orders accepted a second by callers at once, then tickets worked a second\n\n", p.rounds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\t")
	for _, c := range callers {
		fmt.Fprintf(t, "accept, %d\t", c)
	}
	fmt.Fprintln(t, "work\t")
	ratioRows(t, all, f)
	fmt.Fprintln(t, strings.Repeat("\t", columns+1))
	for _, k := range all {
		fmt.Fprintf(t, "%s\t", k.name)
		for _, rounds := range f[k.name] {
			fmt.Fprintf(t, "%s\t", figure(rounds))
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return printSettings(ctx, w, p, all, dir)
}

// ratioRows tells comanda's share of the best of those that do the same job, and of each: the median of the
// rounds' ratios.
func ratioRows(w io.Writer, all []kind, f figures) {
	ours, others := f[all[0].name], all[1:]
	same := slices.DeleteFunc(slices.Clone(others), func(k kind) bool { return k.acceptOnly })
	fmt.Fprintf(w, "%s / the best\t", all[0].name)
	for c := range columns {
		best := slices.MaxFunc(same, func(a, b kind) int { return cmp.Compare(median(f[a.name][c]), median(f[b.name][c])) })
		fmt.Fprintf(w, "%s (%s)\t", ratio(ours[c], f[best.name][c]), best.name)
	}
	fmt.Fprintln(w)
	for _, k := range others {
		fmt.Fprintf(w, "%s / %s\t", all[0].name, k.name)
		for c := range columns {
			fmt.Fprintf(w, "%s\t", ratio(ours[c], f[k.name][c]))
		}
		fmt.Fprintln(w)
	}
}

func ratio(a, b []float64) string {
	if len(b) == 0 {
		return "–"
	}
	var all []float64
	for i := range a {
		all = append(all, a[i]/b[i])
	}
	m := median(all)
	if m < 10 {
		return fmt.Sprintf("%.2f", m)
	}
	return fmt.Sprintf("%.1f", m)
}

func figure(rounds []float64) string {
	if len(rounds) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f", median(rounds))
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return (all[len(all)/2] + all[(len(all)-1)/2]) / 2
}

func printSettings(ctx context.Context, w io.Writer, p plan, all []kind, dir string) error {
	sync, err := syncTime(dir)
	if err != nil {
		return err
	}
	var set []string
	for _, p := range pragmas {
		set = append(set, p.name+"="+p.set)
	}
	fmt.Fprintf(w, "\n%s, comanda at %s\n", time.Now().UTC().Format("2006-01-02 15:04 UTC"), commit(ctx))
	fmt.Fprintf(w, "%s, %d cores, load and all on the same; %s %s/%s; %s, one write and fsync takes %v\n",
		cpu(), runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, filesystem(dir), sync)
	fmt.Fprintf(w, "modernc.org/sqlite %s for all but PocketBase; every file fresh, one connection that writes, %s, read back\n", version("modernc.org/sqlite"), strings.Join(set, " "))
	fmt.Fprintf(w, "an order is 3 tickets; accepting took %v each; work began with %d tickets waiting, comanda's with %d\n", p.accept, p.tickets, p.ours)
	fmt.Fprintln(w, "River, goqite, backlite and \"by hand\" are called in this process, without HTTP, which favours them")
	for _, k := range all {
		fmt.Fprintf(w, "\n%s\n  how:  %s\n  does: %s\n", strings.TrimSpace(k.name+" "+version(k.module)), k.how, k.less)
	}
	return nil
}

// version of a module that this program was built with.
func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	if info == nil || module == "" {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return ""
}

func commit(ctx context.Context) string {
	c := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty")
	c.Dir = root
	out, err := c.Output()
	if err != nil {
		return "an unknown commit"
	}
	return strings.TrimSpace(string(out))
}

func cpu() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "an unknown processor"
}

// filesystem tells the kind on which dir lies: that of the mount point nearest above it.
func filesystem(dir string) string {
	dir, _ = filepath.Abs(dir)
	text, _ := os.ReadFile("/proc/self/mounts")
	kind, longest := "an unknown filesystem", 0
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		if rel, err := filepath.Rel(f[1], dir); err == nil && filepath.IsLocal(rel) && len(f[1]) >= longest {
			kind, longest = f[2], len(f[1])
		}
	}
	return kind
}

// syncTime is the median time of appending 4 KiB to a file and syncing it.
func syncTime(dir string) (time.Duration, error) {
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var took []float64
	for range 101 {
		began := time.Now()
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(began)))
	}
	return time.Duration(median(took)).Round(time.Microsecond), nil
}
