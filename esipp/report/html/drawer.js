/* The drawer of a row: made when it is opened. */
const drawer = $('drawer');
let siblings = [];
let current = -1;
let pushed = false;

/** The rows beside which a row stands: those of its field of a matrix, or of its group. */
function siblingsOf(number) {
  for (const part of partsOfPage()) {
    for (const { links } of part.lines) {
      const field = links.find((each) => each.rows.includes(number));
      if (field) return field.field ? field.rows : links.flatMap((each) => each.rows);
    }
  }
  return [number];
}

/** Open a row, or another one in its stead. */
function openRow(number) {
  current = number;
  siblings = siblingsOf(number);
  const told = row(number);
  $('drawer-body').replaceChildren(...contentOf(told).filter(Boolean));
  const at = visible.indexOf(number);
  $('drawer-before').disabled = at <= 0;
  $('drawer-next').disabled = at < 0 || at >= visible.length - 1;
  $('drawer-place').textContent = at < 0 ? 'not among the rows that are shown' : `${at + 1} of ${visible.length}`;
  if (!drawer.open) drawer.showModal();
  drawPictures(told);
  drawer.scrollTop = 0;
  $('drawer-h').focus({ preventScroll: true });
}

/** Nothing is open any more; the focus returns by itself to where it came from. */
function closeRow() {
  if (drawer.open) drawer.close();
}

/** Follow a link to a row. */
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

/** All that is said of a row. */
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
      pair('Sees', told.sees),
      told.likely ? make('div', { class: 'likely' }, make('dt', null, 'Look there'), make('dd', null, told.likely)) : null,
      pair('Asked', told.asked),
      pair('Fails if', told.fails && told.fails !== told.likely ? told.fails : ''),
      pair('See', ...linked(told.references))),
    ...(path || told.path ? witnessed(told, path) : plainTally(told)),
    ...(told.controls.length ? controlled(told) : []),
    ...kept(told),
  ];
}

/** The other rows of the same field. */
function siblingList(told) {
  if (siblings.length < 2) return null;
  const apart = siblings.map((number) => row(number).id.split('.'));
  const shared = new Set(apart[0].filter((part) => apart.every((parts) => parts.includes(part))));
  const links = siblings.map((number, at) => {
    const each = row(number);
    const own = apart[at].filter((part) => !shared.has(part)).join('.') || 'plain';
    return make('a', { class: `m v-${each.verdict}`, href: `#row=${each.id}`, 'aria-current': each.number === told.number ? 'true' : null, title: `${each.id}: ${DATA.words[each.verdict]}` }, `${DATA.marks[each.verdict]} ${own}`);
  });
  return make('nav', { class: 'siblings', 'aria-label': 'Rows beside this one' }, make('p', null, told.path ? `${siblings.length} rows stand in one field of the matrix:` : `${siblings.length} rows have this requirement:`), ...links.flatMap((link) => [link, ' ']));
}

/** A change of the source as a sentence: one of the port only says so. */
const changeInWords = (text) => (/: (\S+) became \1$/.test(text) ? `only the source port changed, not the address: ${text}` : `the source changed: ${text}`);

/** What both witnesses say. */
function witnessed(told, path) {
  const tally = told.tally.map(([what, count]) => `${said(what)} ×${count}`).join(', ');
  const packets = path ? path.packets : [];
  const made = [
    make('h3', null, 'What both witnesses saw'),
    make('dl', { class: 'told' },
      pair('Echo server and prober', tally || told.observed),
      pair('Packets', packets.length ? (told.change ? told.change.split('; ').map(changeInWords).join('; ') : 'they were captured; no change of the source was seen') : 'none were captured of this path'),
      pair('Source ports', told.ports),
      pair('Rests on', told.witnesses),
      pair('Not dialled', path ? path.obstacle : '')),
  ];
  if (path && path.probes.length) made.push(make('h3', null, 'The packet’s way'), make('div', { id: 'drawn-way' }), make('h3', null, 'The probes in time'), make('div', { id: 'drawn-strip' }));
  for (const each of packets) {
    made.push(make('details', null, make('summary', null, `Packets of connection ${each.seq}${each.alike > 1 ? `, and of ${each.alike - 1} more like it` : ''}`), make('pre', { class: 'words', tabindex: '0' }, each.words), each.contradiction ? make('p', null, make('strong', null, 'Contradiction: '), each.contradiction) : null));
  }
  return made;
}

function plainTally(told) {
  if (!told.tally.length) return [];
  return [make('h3', null, 'What was counted'), make('table', { class: 'list' }, make('thead', null, make('tr', null, make('th', { scope: 'col' }, 'Seen'), make('th', { scope: 'col', class: 'num' }, 'Times'))), make('tbody', null, ...told.tally.map(([what, count]) => make('tr', null, make('th', { scope: 'row' }, said(what)), make('td', { class: 'num' }, String(count))))))];
}

/** The positive controls: what had to hold in the same window, and what was seen of them. */
function controlled(told) {
  const lines = told.controls.map(([name, why]) => {
    const number = numberOf(said(name));
    const verdict = number >= 0 ? row(number).verdict : '';
    const counts = new Map();
    for (const probe of pathOf(said(name))?.probes || []) counts.set(shown(probe), (counts.get(shown(probe)) || 0) + probe.times);
    const seen = [...counts].map(([what, count]) => `${what} ×${count}`).join(', ');
    return make('tr', null, make('th', { scope: 'row' }, said(why) || 'must be right as well'), make('td', null, number >= 0 ? make('a', { class: 'id', href: `#row=${said(name)}` }, said(name)) : make('span', { class: 'id' }, said(name)), verdict ? ' ' : '', verdict ? verdictMark(verdict, verdict) : ''), make('td', null, seen || 'not seen'));
  });
  return [make('h3', null, 'Controls'), make('p', { class: 'quiet' }, 'These had to be right in the same window for the row to be believed.'), make('table', { class: 'list' }, make('thead', null, make('tr', null, ...['Why', 'Path', 'Seen'].map((text) => make('th', { scope: 'col' }, text)))), make('tbody', null, ...lines))];
}

/** Files, how to find the row in the ledger, how to ask again. */
function kept(told) {
  const files = told.files.map(said);
  const records = told.path ? `"(id|path)": "(${[...new Set([told.id, told.path])].map(escaped).join('|')})"` : `"id": "${escaped(told.id)}"`;
  return [
    make('h3', null, 'Evidence and repetition'),
    files.length ? make('ul', { class: 'links' }, ...files.map((file) => make('li', null, make('a', { href: file }, decodeURIComponent(file))))) : make('p', { class: 'quiet' }, 'No files of its own were kept: all that was seen is in the ledger.'),
    make('p', null, 'Its lines of the ledger:'),
    command(`tail -n +2 ${DATA.ledger} | grep -E ${quoted(records)}`),
    make('p', null, 'Ask again:'),
    command(`${DATA.command} ${quoted(told.id)}`),
  ];
}

/** A text as it stands in an extended regular expression. */
const escaped = (text) => JSON.stringify(text).slice(1, -1).replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** The drawings, which need to know how wide the drawer is. */
function drawPictures(told) {
  const path = told.path ? pathOf(told.path) : null;
  if (!path || !path.probes.length) return;
  const wide = Math.max(300, $('drawn-way').clientWidth || 640);
  $('drawn-way').replaceChildren(...wayOf(told, path, wide));
  $('drawn-strip').replaceChildren(...stripOf(told, path, wide));
}
