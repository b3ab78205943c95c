/* The probes over time: a lane for each kind of observation, a bar for each group of probes. */

/** The client of a path, from the path's name. */
const dialler = (path) => (/(?:^|\.)([^.]+)-to-[^.]+(?:\.[^.]+)*$/.exec(path) || [])[1] || '';

/** The lanes of a path: each kind of observation with its probes. */
function lanesOf(path, of) {
  const lanes = new Map();
  for (const probe of path.probes) {
    const what = shown(probe);
    if (!lanes.has(what)) lanes.set(what, []);
    lanes.get(what).push(probe);
  }
  return [...lanes].map(([what, probes]) => ({ of, what, probes, count: probes.reduce((sum, each) => sum + each.times, 0) }));
}

/** A step of an axis: 1, 2 or 5 times a power of ten. */
function stepFor(length, most) {
  const least = length / most;
  const power = 10 ** Math.floor(Math.log10(least || 1));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= least);
}

function stripOf(check, path, wide) {
  const lanes = lanesOf(path, '');
  for (const [name] of check.controls) {
    const other = pathOf(said(name));
    if (other && said(name) !== check.path && dialler(said(name)) === dialler(check.path)) lanes.push(...lanesOf(other, `control ${said(name)}`));
  }
  const probes = lanes.flatMap((lane) => lane.probes);
  const first = Math.min(...probes.map((each) => each.start));
  const last = Math.max(...probes.map((each) => each.start + each.length), first + 1);
  const scale = (at) => 2 + ((at - first) / (last - first)) * (wide - 40);
  const parts = [];
  const words = [];
  let y = 4;
  for (const lane of lanes) {
    if (lane.of) {
      for (const piece of lane.of.match(new RegExp(`.{1,${Math.floor(wide / 7.4)}}`, 'g'))) { // a narrow screen breaks it
        parts.push(make('text', { x: 0, y: y + 12, class: 'addr' }, piece));
        y += 16;
      }
    }
    parts.push(make('text', { x: 0, y: y + 12 }, `${lane.what} ×${lane.count}`));
    y += 18;
    parts.push(make('line', { x1: 0, x2: wide, y1: y + 8, y2: y + 8, class: 'axis' }));
    let free = 0;
    for (const probe of lane.probes) {
      const x = scale(probe.start);
      const width = Math.max(4, scale(probe.start + probe.length) - x);
      const seconds = ((probe.start - first) / 1000).toFixed(2);
      parts.push(make('rect', { x, y: y + 1, width, height: 14, class: probe.seen ? 'bar-full' : 'bar-empty' }, make('title', null, `${probe.times} ${probe.times === 1 ? 'probe' : 'probes'} from ${seconds} s, ${(probe.length / 1000).toFixed(2)} s long: ${lane.what}${probe.detail ? ` (${probe.detail})` : ''}`)));
      if (probe.times > 1 && x + width + 4 > free && x + width < wide - 30) {
        parts.push(make('text', { x: x + width + 4, y: y + 12, class: 'addr' }, `×${probe.times}`));
        free = x + width + 40;
      }
    }
    const begins = Math.min(...lane.probes.map((each) => each.start));
    const ends = Math.max(...lane.probes.map((each) => each.start + each.length));
    words.push(`${lane.of ? `${lane.of}, ` : ''}${lane.what}: ${lane.count} probes, from ${((begins - first) / 1000).toFixed(2)} s to ${((ends - first) / 1000).toFixed(2)} s`);
    y += 26;
  }
  const step = stepFor((last - first) / 1000, Math.max(3, Math.floor(wide / 90)));
  for (let at = 0; at <= (last - first) / 1000 + step / 1e6; at += step) {
    const x = scale(first + at * 1000);
    parts.unshift(make('line', { x1: x, x2: x, y1: 0, y2: y, class: 'axis' }));
    parts.push(make('text', { x, y: y + 14, class: 'tick' }, `${Number(at.toFixed(6))} s`));
  }
  const height = y + 22;
  const svg = make('svg', { class: 'strip', viewBox: `0 0 ${wide} ${height}`, width: wide, height, role: 'img', 'aria-labelledby': 'strip-t strip-d' }, make('title', { id: 'strip-t' }, 'The probes over time'), make('desc', { id: 'strip-d' }, words.join('; ')), ...parts);
  const more = path.more ? make('p', null, `The ledger has ${path.more} more groups of probes.`) : null;
  return [svg, make('p', { class: 'quiet small' }, 'A bar is one probe, or a burst of probes with its count. Filled: a backend answered. Hollow: no backend answered. Seconds count from the first probe shown, on the prober’s clock.'), more].filter(Boolean);
}
