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
function openCheck(number) {
  current = number;
  siblings = siblingsOf(number);
  const check = checkAt(number);
  $('drawer-body').replaceChildren(...contentOf(check).filter(Boolean));
  const at = visible.indexOf(number);
  $('drawer-before').disabled = at <= 0;
  $('drawer-next').disabled = at < 0 || at >= visible.length - 1;
  $('drawer-place').textContent = at < 0 ? 'not among the selected checks' : `${at + 1} of ${visible.length}`;
  if (!drawer.open) drawer.showModal();
  drawPictures(check);
  drawer.scrollTop = 0;
  $('drawer-h').focus({ preventScroll: true });
}

/** Close the drawer; the browser returns the focus. */
function closeCheck() {
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
  if (number >= 0) openCheck(number);
}

function step(by) {
  const next = visible[visible.indexOf(current) + by];
  if (next !== undefined) goTo(checkAt(next).id);
}

const pair = (name, ...what) => (what.flat().some((each) => each !== '' && each !== null) ? make('div', null, make('dt', null, name), make('dd', null, ...what)) : null);

/** The content of the drawer for a check. */
function contentOf(check) {
  const path = check.path ? pathOf(check.path) : null;
  const facets = [check.level, check.profile, check.suite.replaceAll('_', ' '), check.protocol, check.family, check.client].filter(Boolean);
  const difference = check.difference.length ? [' [', ...linked(check.difference), ']'] : [];
  const expected = check.expect && check.expect !== check.expected ? `${check.expect.replaceAll('_', ' ').replaceAll('|', ' or ')}: ${check.expected}` : check.expected;
  return [
    make('h2', { id: 'drawer-h', tabindex: '-1' }, check.id),
    make('p', { class: 'facets' }, verdictMark(check.verdict), ...facets.map((each) => make('span', { class: 'level' }, each))),
    siblingList(check),
    make('p', { class: 'required' }, check.requirement),
    make('dl', { class: 'details' },
      pair('Expected', expected),
      pair('Observed', check.observed),
      pair('Reason', check.nature ? `${check.nature}: ${check.reason}` : check.reason, ...difference),
      pair(check.verdict === 'known' ? 'Evidence' : 'Precision', check.sees),
      check.likely ? make('div', { class: 'likely' }, make('dt', null, 'Where to look'), make('dd', null, check.likely)) : null,
      pair('Method', check.asked),
      pair('Fails if', check.fails && check.fails !== check.likely ? check.fails : ''),
      pair('See', ...linked(check.references))),
    ...(path || check.path ? witnessed(check, path) : plainTally(check)),
    ...(check.controls.length ? controlled(check) : []),
    ...kept(check),
  ];
}

/** Links to the other checks of the same field or group. */
function siblingList(check) {
  if (siblings.length < 2) return null;
  const apart = siblings.map((number) => checkAt(number).id.split('.'));
  const shared = new Set(apart[0].filter((part) => apart.every((parts) => parts.includes(part))));
  const links = siblings.map((number, at) => {
    const each = checkAt(number);
    const own = apart[at].filter((part) => !shared.has(part)).join('.') || 'plain';
    return make('a', { class: `m v-${each.verdict}`, href: `#row=${each.id}`, 'aria-current': each.number === check.number ? 'true' : null, title: `${each.id}: ${DATA.words[each.verdict]}` }, `${DATA.marks[each.verdict]} ${own}`);
  });
  return make('nav', { class: 'siblings', 'aria-label': 'Related checks' }, make('p', null, check.path ? `${siblings.length} checks share this field of the matrix:` : `${siblings.length} checks share this requirement:`), ...links.flatMap((link) => [link, ' ']));
}

/** A change of the source as a sentence; a change of only the port says so. */
const changeInWords = (text) => (/: (?:(\S+) became \1|NAT moved the source port of \S+)$/.test(text) ? `only the source port changed: ${text}` : `the source changed: ${text}`);

/** What the two witnesses observed. */
function witnessed(check, path) {
  const tally = check.tally.map(([what, count]) => `${said(what)} ×${count}`).join(', ');
  const packets = path ? path.packets : [];
  const made = [
    make('h3', null, 'What the two witnesses observed'),
    make('dl', { class: 'details' },
      pair('Echo server and prober', tally || check.observed),
      pair('Packets', packets.length ? (check.change ? check.change.split('; ').map(changeInWords).join('; ') : 'captured; they show no change of the source') : 'none captured on this path'),
      pair('Source ports', check.ports),
      pair('Based on', check.witnesses),
      pair('Not dialled', path ? path.obstacle : '')),
  ];
  if (path && path.probes.length) made.push(make('h3', null, 'The packet’s route'), make('div', { id: 'drawn-way' }), make('h3', null, 'The probes over time'), make('div', { id: 'drawn-strip' }));
  for (const each of packets) {
    made.push(make('details', null, make('summary', null, `Packets of connection ${each.seq}${each.alike > 1 ? ` and ${each.alike - 1} similar ones` : ''}`), make('pre', { class: 'words', tabindex: '0' }, each.words), each.contradiction ? make('p', null, make('strong', null, 'Contradiction: '), each.contradiction) : null));
  }
  return made;
}

function plainTally(check) {
  if (!check.tally.length) return [];
  return [make('h3', null, 'Observations'), make('table', { class: 'list' }, make('thead', null, make('tr', null, make('th', { scope: 'col' }, 'Observation'), make('th', { scope: 'col', class: 'num' }, 'Count'))), make('tbody', null, ...check.tally.map(([what, count]) => make('tr', null, make('th', { scope: 'row' }, said(what)), make('td', { class: 'num' }, String(count))))))];
}

/** The positive controls: what had to hold in the same window, and what was observed. */
function controlled(check) {
  const lines = check.controls.map(([name, why]) => {
    const number = numberOf(said(name));
    const verdict = number >= 0 ? checkAt(number).verdict : '';
    const counts = new Map();
    for (const probe of pathOf(said(name))?.probes || []) counts.set(shown(probe), (counts.get(shown(probe)) || 0) + probe.times);
    const seen = [...counts].map(([what, count]) => `${what} ×${count}`).join(', ');
    return make('tr', null, make('th', { scope: 'row' }, said(why) || 'must be right too'), make('td', null, number >= 0 ? make('a', { class: 'id', href: `#row=${said(name)}` }, said(name)) : make('span', { class: 'id' }, said(name)), verdict ? ' ' : '', verdict ? verdictMark(verdict, verdict) : ''), make('td', null, seen || 'no observation'));
  });
  return [make('h3', null, 'Controls'), make('p', { class: 'quiet' }, 'The check counts only if these paths were right in the same window.'), make('table', { class: 'list' }, make('thead', null, make('tr', null, ...['Why', 'Path', 'Observed'].map((text) => make('th', { scope: 'col' }, text)))), make('tbody', null, ...lines))];
}

/** Files, the command that finds the check in the ledger, and the command that repeats it. */
function kept(check) {
  const files = check.files.map(said);
  const records = check.path ? `"(id|path)": "(${[...new Set([check.id, check.path])].map(escaped).join('|')})"` : `"id": "${escaped(check.id)}"`;
  return [
    make('h3', null, 'Evidence and repetition'),
    files.length ? make('ul', { class: 'links' }, ...files.map((file) => make('li', null, make('a', { href: file }, decodeURIComponent(file))))) : make('p', { class: 'quiet' }, 'The check has no files of its own. The ledger has its evidence.'),
    make('p', null, 'Its lines in the ledger:'),
    command(`tail -n +2 ${DATA.ledger} | grep -E ${quoted(records)}`),
    make('p', null, 'Repeat the check:'),
    command(`${DATA.command} ${quoted(check.id)}`),
  ];
}

/** A text escaped for an extended regular expression. */
const escaped = (text) => JSON.stringify(text).slice(1, -1).replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** The drawings; they depend on the width of the drawer. */
function drawPictures(check) {
  const path = check.path ? pathOf(check.path) : null;
  if (!path || !path.probes.length) return;
  const wide = Math.max(300, $('drawn-way').clientWidth || 640);
  $('drawn-way').replaceChildren(...wayOf(check, path, wide));
  $('drawn-strip').replaceChildren(...stripOf(check, path, wide));
}
