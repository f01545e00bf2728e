package main

import (
	"fmt"
	"image/color"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// table sums everything up. It reports whether all of it held.
func table(out io.Writer, outcomes []*outcome) bool {
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SCENARIO\tREQUESTS\tADMITTED\tREFUSED\tEXPECTED\tERRORS\tP50\tP99\t")
	held := len(outcomes) > 0
	for _, o := range outcomes {
		n := max(int(o.metrics.Requests), 1)
		word := "holds"
		if len(o.verdict.problems) > 0 {
			word, held = "DOES NOT HOLD", false
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%.1f %%\t%v\t%v\t%s\n", o.title, o.metrics.Requests, len(o.admitted), o.refused, o.verdict.expected,
			100*float64(o.errors)/float64(n), rounded(o.metrics.Latencies.P50), rounded(o.metrics.Latencies.P99), word)
	}
	_ = w.Flush()
	for _, o := range outcomes {
		for _, problem := range o.verdict.problems {
			fmt.Fprintf(out, "PROBLEM: %s: %s\n", o.title, problem)
		}
	}
	return held
}

func rounded(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// The colours can be told apart by those who see no red or no green.
var (
	admittedColor = color.RGBA{0, 114, 178, 255}
	expectedColor = color.RGBA{213, 94, 0, 255}
)

// picture writes one panel for each scenario: admitted per second over time,
// against what is expected.
func picture(path string, outcomes []*outcome) (err error) {
	panels := make([][]*plot.Plot, len(outcomes))
	for i, o := range outcomes {
		p, err := panel(o)
		if err != nil {
			return err
		}
		panels[i] = []*plot.Plot{p}
	}
	canvas := vgsvg.New(18*vg.Centimeter, vg.Length(len(outcomes))*6*vg.Centimeter)
	tiles := tilesFor(len(outcomes))
	for i, row := range plot.Align(panels, tiles, draw.New(canvas)) {
		panels[i][0].Draw(row[0])
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := canvas.WriteTo(file); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

// tilesFor lays panels out below each other.
func tilesFor(rows int) draw.Tiles {
	return draw.Tiles{Rows: rows, Cols: 1, PadY: vg.Millimeter * 4, PadTop: vg.Millimeter * 2, PadBottom: vg.Millimeter * 2, PadRight: vg.Millimeter * 4}
}

func panel(o *outcome) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = o.title, "seconds", "admitted per second"
	p.BackgroundColor = color.White // pages may be dark
	p.Y.Min = 0
	p.Legend.Top = true
	p.Add(plotter.NewGrid())
	bins := perSecond(o.admitted, o.bin)
	if err := addLine(p, "admitted", bins, o.bin, admittedColor, false); err != nil {
		return nil, err
	}
	if expected := o.expect(len(bins)); expected != nil {
		if err := addLine(p, "expected of Redis", expected, o.bin, expectedColor, true); err != nil {
			return nil, err
		}
	}
	if o.away[1] > 0 {
		p.Title.Text += fmt.Sprintf(" (away from %.1f s to %.1f s)", o.away[0].Seconds(), o.away[1].Seconds())
	}
	return p, nil
}

// perSecond counts events in bins and scales the counts to a second. The last
// bin, which has not ended, is left out if there are others.
func perSecond(at []time.Duration, bin time.Duration) []float64 {
	if len(at) == 0 {
		return nil
	}
	bins := make([]float64, int(slices.Max(at)/bin)+1)
	for _, t := range at {
		bins[int(t/bin)] += 1 / bin.Seconds()
	}
	return bins[:max(len(bins)-1, 1)]
}

// expect is the capacity at once, then the rate.
func (o *outcome) expect(bins int) []float64 {
	if o.steady == 0 {
		return nil
	}
	expected := make([]float64, bins)
	for i := range expected {
		expected[i] = o.steady
	}
	if bins > 0 {
		expected[0] += o.capacity / o.bin.Seconds()
	}
	return expected
}

func addLine(p *plot.Plot, name string, values []float64, bin time.Duration, c color.Color, dashed bool) error {
	points := make(plotter.XYs, len(values))
	for i, v := range values {
		points[i] = plotter.XY{X: (float64(i) + 0.5) * bin.Seconds(), Y: v}
	}
	if len(points) == 0 {
		return nil
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	line.Color, line.Width = c, vg.Points(1.5)
	if dashed {
		line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
	}
	p.Add(line)
	p.Legend.Add(name, line)
	return nil
}
