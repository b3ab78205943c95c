/* The drawer with the details of a check, made when it opens. */
const drawer = $('drawer');
let siblings = [];
let current = -1;
let pushed = false;

/** The checks in the same field of a matrix, or in the same group. */
function siblingsOf(number) {
  for (const part of partsOfPage()) {
    for (const { links } of part.lines) {
      const field = links.find((each) => each.rows.includes(number));
      if (field) return field.field ? field.rows : links.flatMap((each) => each.rows);
    }
  }
  return [number];
}

/** Open a check, also in place of an open one. */
function openRow(number) {
  current = number;
  siblings = siblingsOf(number);
  const told = row(number);
  $('drawer-body').replaceChildren(...contentOf(told).filter(Boolean));
  const at = visible.indexOf(number);
  $('drawer-before').disabled = at <= 0;
  $('drawer-next').disabled = at < 0 || at >= visible.length - 1;
  $('drawer-place').textContent = at < 0 ? 'not among the selected checks' : `${at + 1} of ${visible.length}`;
  if (!drawer.open) drawer.showModal();
  drawPictures(told);
  drawer.scrollTop = 0;
  $('drawer-h').focus({ preventScroll: true });
}

/** Close the drawer; the browser returns the focus. */
function closeRow() {
  if (drawer.open) drawer.close();
}

/** Follow a link to a check. */
function goTo(id) {
  const address = addressFor(state, id);
  if (drawer.open) history.replaceState(null, '', address);
  else {
    history.pushState(null, '', address);
    pushed = true;
  }
  const number = numberOf(id);
  if (number >= 0) openRow(number);
}

function step(by) {
  const next = visible[visible.indexOf(current) + by];
  if (next !== undefined) goTo(row(next).id);
}

const pair = (name, ...what) => (what.flat().some((each) => each !== '' && each !== null) ? make('div', null, make('dt', null, name), make('dd', null, ...what)) : null);

/** The content of the drawer for a check. */
function contentOf(told) {
  const path = told.path ? pathOf(told.path) : null;
  const facets = [told.level, told.profile, told.suite.replaceAll('_', ' '), told.protocol, told.family, told.client].filter(Boolean);
  const difference = told.difference.length ? [' [', ...linked(told.difference), ']'] : [];
  const expected = told.expect && told.expect !== told.expected ? `${told.expect.replaceAll('_', ' ').replaceAll('|', ' or ')}: ${told.expected}` : told.expected;
  return [
    make('h2', { id: 'drawer-h', tabindex: '-1' }, told.id),
    make('p', { class: 'facets' }, verdictMark(told.verdict), ...facets.map((each) => make('span', { class: 'level' }, each))),
    siblingList(told),
    make('p', { class: 'required' }, told.requirement),
    make('dl', { class: 'told' },
      pair('Expected', expected),
      pair('Observed', told.observed),
      pair('Reason', told.nature ? `${told.nature}: ${told.reason}` : told.reason, ...difference),
      pair('Precision', told.sees),
      told.likely ? make('div', { class: 'likely' }, make('dt', null, 'Where to look'), make('dd', null, told.likely)) : null,
      pair('Method', told.asked),
      pair('Fails if', told.fails && told.fails !== told.likely ? told.fails : ''),
      pair('See', ...linked(told.references))),
    ...(path || told.path ? witnessed(told, path) : plainTally(told)),
    ...(told.controls.length ? controlled(told) : []),
    ...kept(told),
  ];
}

/** Links to the other checks of the same field or group. */
function siblingList(told) {
  if (siblings.length < 2) return null;
  const apart = siblings.map((number) => row(number).id.split('.'));
  const shared = new Set(apart[0].filter((part) => apart.every((parts) => parts.includes(part))));
  const links = siblings.map((number, at) => {
    const each = row(number);
    const own = apart[at].filter((part) => !shared.has(part)).join('.') || 'plain';
    return make('a', { class: `m v-${each.verdict}`, href: `#row=${each.id}`, 'aria-current': each.number === told.number ? 'true' : null, title: `${each.id}: ${DATA.words[each.verdict]}` }, `${DATA.marks[each.verdict]} ${own}`);
  });
  return make('nav', { class: 'siblings', 'aria-label': 'Related checks' }, make('p', null, told.path ? `${siblings.length} checks share this field of the matrix:` : `${siblings.length} checks share this requirement:`), ...links.flatMap((link) => [link, ' ']));
}

/** A change of the source as a sentence; a change of only the port says so. */
const changeInWords = (text) => (/: (\S+) became \1$/.test(text) ? `only the source port changed: ${text}` : `the source changed: ${text}`);

/** What the two witnesses observed. */
function witnessed(told, path) {
  const tally = told.tally.map(([what, count]) => `${said(what)} ×${count}`).join(', ');
  const packets = path ? path.packets : [];
  const made = [
    make('h3', null, 'What the two witnesses observed'),
    make('dl', { class: 'told' },
      pair('Echo server and prober', tally || told.observed),
      pair('Packets', packets.length ? (told.change ? told.change.split('; ').map(changeInWords).join('; ') : 'captured; they show no change of the source') : 'none captured on this path'),
      pair('Source ports', told.ports),
      pair('Based on', told.witnesses),
      pair('Not dialled', path ? path.obstacle : '')),
  ];
  if (path && path.probes.length) made.push(make('h3', null, 'The packet’s route'), make('div', { id: 'drawn-way' }), make('h3', null, 'The probes over time'), make('div', { id: 'drawn-strip' }));
  for (const each of packets) {
    made.push(make('details', null, make('summary', null, `Packets of connection ${each.seq}${each.alike > 1 ? ` and ${each.alike - 1} similar ones` : ''}`), make('pre', { class: 'words', tabindex: '0' }, each.words), each.contradiction ? make('p', null, make('strong', null, 'Contradiction: '), each.contradiction) : null));
  }
  return made;
}

function plainTally(told) {
  if (!told.tally.length) return [];
  return [make('h3', null, 'Observations'), make('table', { class: 'list' }, make('thead', null, make('tr', null, make('th', { scope: 'col' }, 'Observation'), make('th', { scope: 'col', class: 'num' }, 'Count'))), make('tbody', null, ...told.tally.map(([what, count]) => make('tr', null, make('th', { scope: 'row' }, said(what)), make('td', { class: 'num' }, String(count))))))];
}

/** The positive controls: what had to hold in the same window, and what was observed. */
function controlled(told) {
  const lines = told.controls.map(([name, why]) => {
    const number = numberOf(said(name));
    const verdict = number >= 0 ? row(number).verdict : '';
    const counts = new Map();
    for (const probe of pathOf(said(name))?.probes || []) counts.set(shown(probe), (counts.get(shown(probe)) || 0) + probe.times);
    const seen = [...counts].map(([what, count]) => `${what} ×${count}`).join(', ');
    return make('tr', null, make('th', { scope: 'row' }, said(why) || 'must be right too'), make('td', null, number >= 0 ? make('a', { class: 'id', href: `#row=${said(name)}` }, said(name)) : make('span', { class: 'id' }, said(name)), verdict ? ' ' : '', verdict ? verdictMark(verdict, verdict) : ''), make('td', null, seen || 'no observation'));
  });
  return [make('h3', null, 'Controls'), make('p', { class: 'quiet' }, 'The check counts only if these paths were right in the same window.'), make('table', { class: 'list' }, make('thead', null, make('tr', null, ...['Why', 'Path', 'Observed'].map((text) => make('th', { scope: 'col' }, text)))), make('tbody', null, ...lines))];
}

/** Files, the command that finds the check in the ledger, and the command that repeats it. */
function kept(told) {
  const files = told.files.map(said);
  const records = told.path ? `"(id|path)": "(${[...new Set([told.id, told.path])].map(escaped).join('|')})"` : `"id": "${escaped(told.id)}"`;
  return [
    make('h3', null, 'Evidence and repetition'),
    files.length ? make('ul', { class: 'links' }, ...files.map((file) => make('li', null, make('a', { href: file }, decodeURIComponent(file))))) : make('p', { class: 'quiet' }, 'The check has no files of its own. The ledger has its evidence.'),
    make('p', null, 'Its lines in the ledger:'),
    command(`tail -n +2 ${DATA.ledger} | grep -E ${quoted(records)}`),
    make('p', null, 'Repeat the check:'),
    command(`${DATA.command} ${quoted(told.id)}`),
  ];
}

/** A text escaped for an extended regular expression. */
const escaped = (text) => JSON.stringify(text).slice(1, -1).replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** The drawings; they depend on the width of the drawer. */
function drawPictures(told) {
  const path = told.path ? pathOf(told.path) : null;
  if (!path || !path.probes.length) return;
  const wide = Math.max(300, $('drawn-way').clientWidth || 640);
  $('drawn-way').replaceChildren(...wayOf(told, path, wide));
  $('drawn-strip').replaceChildren(...stripOf(told, path, wide));
}
