/* The filters. The address holds them: a view can be shared, and the back button works. */
const SELECTS = ['suite', 'profile', 'level', 'family', 'protocol', 'client'];
const ORDER = ['pass', 'recorded', 'known', 'unsupported', 'inconclusive', 'flaky', 'fail', 'error', 'unjudged'];
const AT_ONCE = 60;
const COLUMN = Object.fromEntries(DATA.columns.map((name, at) => [name, at]));
const form = $('filters');
let state = { q: '', verdict: [] };
let visible = DATA.rows.map((_, number) => number);
let listed = 0;

/** The filters and the open check, from the address. */
function fromAddress() {
  const params = new URLSearchParams(decodeURIComponentSafe(location.hash.slice(1)));
  const made = { q: params.get('q') || '', verdict: (params.get('verdict') || '').split(',').filter((each) => ORDER.includes(each)) };
  for (const name of SELECTS) made[name] = params.get(name) || '';
  return { filters: made, row: params.get('row') || '' };
}

/** A link may have been written with all of its fragment escaped. */
function decodeURIComponentSafe(hash) {
  return /%3D/i.test(hash) && !hash.includes('=') ? decodeURIComponent(hash) : hash;
}

/** The address of these filters and of an open check. */
function addressFor(filters, open) {
  const params = new URLSearchParams();
  for (const name of ['q', ...SELECTS]) if (filters[name]) params.set(name, filters[name]);
  if (filters.verdict.length) params.set('verdict', filters.verdict.join(','));
  if (open) params.set('row', open);
  const hash = params.toString().replaceAll('%2C', ',');
  return hash ? `#${hash}` : location.pathname + location.search;
}

const filtering = () => Boolean(state.q || state.verdict.length || SELECTS.some((name) => state[name]));

/** The filters in words: a print has them too. */
const inWords = () => [
  state.q && `with “${state.q}”`,
  ...SELECTS.filter((name) => state[name]).map((name) => `${name} ${state[name].replaceAll('_', ' ')}`),
  state.verdict.map((each) => DATA.words[each]).join(' or '),
].filter(Boolean).join(', ');

/** The text of each check that a search covers, made at the first search. */
let haystack = null;
function textOf(number) {
  haystack = haystack || DATA.rows.map((record) => ['id', 'requirement', 'expected', 'observed', 'reason', 'change'].map((name) => said(record[COLUMN[name]])).join('\n').toLowerCase());
  return haystack[number];
}

/** The checks that the filters select. */
function select() {
  const wanted = SELECTS.filter((name) => state[name]).map((name) => [COLUMN[name], DATA.strings.indexOf(state[name])]);
  const verdicts = new Set(state.verdict.map((each) => DATA.strings.indexOf(each)));
  const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  DATA.rows.forEach((record, number) => {
    if (verdicts.size && !verdicts.has(record[COLUMN.verdict])) return;
    if (wanted.some(([at, value]) => (record[at] || 0) !== value)) return;
    if (words.length && !words.every((word) => textOf(number).includes(word))) return;
    found.push(number);
  });
  return found;
}

/** The fields and lines of the page that a filter hides or shows, found once. */
let parts = null;
function partsOfPage() {
  parts = parts || [...document.querySelectorAll('.suite')].map((suite) => ({
    suite,
    matrix: suite.querySelector('.matrix'),
    groups: suite.querySelector('.groups'),
    open: Boolean(suite.querySelector('.groups')?.open),
    lines: [...suite.querySelectorAll('tbody tr')].map((line) => ({
      line,
      links: [...line.querySelectorAll('[data-rows]')].map((link) => ({
        link, rows: link.dataset.rows.split(' ').map(Number), whole: [...link.childNodes], class: link.className,
        label: link.getAttribute('aria-label'), href: link.getAttribute('href'), field: link.classList.contains('f'), now: '',
      })),
    })),
  }));
  return parts;
}

/** Apply the filters to the page. */
function apply() {
  visible = select();
  const shows = new Uint8Array(DATA.rows.length);
  for (const number of visible) shows[number] = 1;
  const all = visible.length === DATA.rows.length;
  for (const part of partsOfPage()) {
    let left = 0;
    for (const { line, links } of part.lines) {
      let some = false;
      for (const each of links) some = showLink(each, all ? each.rows : each.rows.filter((number) => shows[number])) || some;
      set(line, !some);
      left += some ? 1 : 0;
    }
    set(part.suite, !left);
    if (part.matrix) set(part.matrix.parentElement, !part.matrix.querySelector('tbody tr:not([hidden])'));
    if (part.groups) {
      const groups = part.groups.querySelectorAll('tbody tr:not([hidden])').length;
      set(part.groups, !groups);
      part.groups.open = all ? part.open : groups > 0 && groups <= 60;
    }
  }
  const count = all ? `All ${visible.length} checks are shown.` : `${visible.length} of ${DATA.rows.length} checks are shown: ${inWords()}.`;
  $('shown').textContent = count;
  $('found-count').textContent = `${visible.length} checks`;
  $('found').open = !all && visible.length > 0 ? true : $('found').open && visible.length > 0 && !all;
  $('found-rows').replaceChildren();
  listed = 0;
  if ($('found').open) listMore(AT_ONCE);
}

function set(element, hidden) {
  if (element.hidden !== hidden) element.hidden = hidden;
}

/** Show a field or a link for those of its checks that are shown; hide it if there is none. */
function showLink(each, rows) {
  const now = rows.join(' ');
  if (now === each.now) return rows.length > 0;
  each.now = now;
  if (!each.field) {
    set(each.link, !rows.length);
    return rows.length > 0;
  }
  each.link.parentElement.classList.toggle('off', !rows.length);
  if (!rows.length) return false;
  if (rows.length === each.rows.length) {
    each.link.className = each.class;
    each.link.setAttribute('aria-label', each.label);
    each.link.title = each.label;
    each.link.setAttribute('href', each.href);
    each.link.replaceChildren(...each.whole);
    return true;
  }
  const made = rows.map(checkAt);
  const worst = made.reduce((a, b) => (rank(b.verdict) > rank(a.verdict) ? b : a));
  const letters = [...new Set(made.flatMap((one) => [...one.letters]))].sort().join('').slice(0, 2);
  const mark = worst.verdict === 'pass' ? '' : DATA.marks[worst.verdict];
  const label = `${letters || 'nothing'}${mark}: ${DATA.words[worst.verdict]}, of ${rows.length} checks shown; ${worst.client}, ${worst.family}`;
  each.link.className = `f v-${worst.verdict}`;
  each.link.setAttribute('aria-label', label);
  each.link.title = label;
  each.link.setAttribute('href', `#row=${worst.id}`);
  each.link.replaceChildren(letters || '·', ...(mark ? [make('b', null, mark)] : []));
  return true;
}

/** How bad a verdict is; "recorded" is the least. */
const RANK = ['recorded', 'pass', ...ORDER.slice(2)];
const rank = (verdict) => RANK.indexOf(verdict);

/** More lines of the list. */
function listMore(most) {
  const lines = visible.slice(listed, listed + most).map((number) => {
    const check = checkAt(number);
    return make('tr', null, make('td', null, verdictMark(check.verdict, check.verdict), ` ${check.level}`), make('th', { scope: 'row' }, make('a', { class: 'id', href: `#row=${check.id}` }, check.id)), make('td', null, check.expected), make('td', null, check.observed));
  });
  $('found-rows').append(...lines);
  listed += lines.length;
  const left = visible.length - listed;
  set($('found-more'), left <= 0);
  $('found-more').textContent = `Show ${Math.min(left, 5 * AT_ONCE)} more of ${left}`;
}

/** Fill the form's choices from the checks, each with its count. */
function fillForm() {
  for (const name of SELECTS) {
    const counts = new Map();
    for (const record of DATA.rows) counts.set(record[COLUMN[name]] || 0, (counts.get(record[COLUMN[name]] || 0) || 0) + 1);
    for (const [number, count] of counts) {
      if (number) form.elements[name].append(make('option', { value: said(number) }, `${said(number).replaceAll('_', ' ')} (${count})`));
    }
  }
  const counts = new Map();
  for (const record of DATA.rows) counts.set(said(record[COLUMN.verdict]), (counts.get(said(record[COLUMN.verdict])) || 0) + 1);
  for (const verdict of ORDER.filter((each) => counts.has(each))) {
    $('filter-verdicts').append(make('label', { class: `v v-${verdict}` }, make('input', { type: 'checkbox', name: 'verdict', value: verdict }), `${DATA.marks[verdict]} ${DATA.words[verdict]} ${counts.get(verdict)}`));
  }
}

/** Set the form from the filters. */
function showForm() {
  form.elements.q.value = state.q;
  for (const name of SELECTS) form.elements[name].value = state[name] || '';
  for (const box of form.querySelectorAll('[name=verdict]')) box.checked = state.verdict.includes(box.value);
}

/** Read the filters from the form. */
function readForm() {
  const made = { q: form.elements.q.value, verdict: [...form.querySelectorAll('[name=verdict]:checked')].map((box) => box.value) };
  for (const name of SELECTS) made[name] = form.elements[name].value;
  return made;
}

/** Set new filters: typing a text is one step of the history, any other change is a step of its own. */
function filter(filters, typed) {
  const before = state.q;
  const same = addressFor(filters, '') === addressFor(state, '');
  state = filters;
  if (!same) history[typed && before ? 'replaceState' : 'pushState'](null, '', addressFor(state, ''));
  apply();
  clearTimeout(filter.later);
  filter.later = setTimeout(() => tell($('shown').textContent), 500);
}
