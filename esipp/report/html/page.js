/* The data of each check. Texts are only ever set as text: nothing from a ledger becomes markup. */
const DATA = JSON.parse(document.getElementById('data').textContent);
const LISTS = ['references', 'difference', 'controls', 'tally', 'files'];
const SVG = 'http://www.w3.org/2000/svg';
const $ = (id) => document.getElementById(id);

/** A text by its number. */
const said = (number) => DATA.strings[number || 0];

/** An element with attributes and children; false and null ones are left out. */
function make(name, attributes, ...children) {
  const svg = SVG_NAMES.has(name);
  const made = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? '' : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false && child !== ''));
  return made;
}
const SVG_NAMES = new Set(['svg', 'title', 'desc', 'line', 'rect', 'circle', 'path', 'text', 'g', 'tspan']);

/** The checks, each made at first use. */
const CHECKS = new Array(DATA.rows.length);
function checkAt(number) {
  if (!CHECKS[number]) {
    const record = DATA.rows[number];
    const made = { number };
    DATA.columns.forEach((name, at) => {
      made[name] = LISTS.includes(name) ? record[at] || [] : said(record[at]);
    });
    CHECKS[number] = made;
  }
  return CHECKS[number];
}

/** The observations of a path. */
const PATHS = new Map(DATA.paths.map((record) => [said(record[0]), record]));
function pathOf(name) {
  const record = PATHS.get(name);
  if (!record) return null;
  const probes = record[1].map((each) => ({
    seq: each[0], times: each[1], outcome: said(each[2]), source: said(each[3]), dialled: said(each[4]),
    seen: said(each[5]), pod: said(each[6]), node: said(each[7]), start: each[8], length: each[9], detail: said(each[10]),
  }));
  const packets = record[2].map((each) => ({
    seq: each[0], words: said(each[1]), delivered: said(each[2]), change: said(each[3]), contradiction: said(each[4]),
    alike: each[5],
  }));
  return { probes, packets, obstacle: said(record[3]), more: record[4] };
}

/** The numbers of checks by id, made once. */
let byId = null;
function numberOf(id) {
  byId = byId || new Map(DATA.rows.map((record, number) => [said(record[0]), number]));
  return byId.has(id) ? byId.get(id) : -1;
}

/** Address without its port: ``[fd00::1]:80`` is ``fd00::1``. */
const addressOf = (end) => end.replace(/:\d+$/, '').replace(/^\[|\]$/g, '');
/** The owner of an address; empty if it is unknown. */
const ownerOf = (end) => DATA.addresses[addressOf(end)] || '';

/** What a probe showed, in a few words. */
function shown(probe) {
  if (!probe.seen) return probe.outcome === 'timeout' ? 'no answer' : probe.outcome;
  const own = addressOf(probe.seen) === addressOf(probe.source);
  const whose = own ? 'the client’s own address' : `${addressOf(probe.seen)}${ownerOf(probe.seen) ? `, ${ownerOf(probe.seen)}` : ''}`;
  return `${probe.outcome}: ${whose}`;
}

/** A verdict as the whole page shows it: sign and word. */
const verdictMark = (verdict, word) => make('strong', { class: `v v-${verdict}` }, `${DATA.marks[verdict]} ${word || DATA.words[verdict]}`);

/** References by their numbers, each as a link where it has an address. */
function linked(numbers) {
  return numbers.flatMap((number, at) => {
    const [title, url] = DATA.references[number].map(said);
    return [at ? '; ' : '', url ? make('a', { href: url, rel: 'noreferrer' }, title) : title];
  });
}

/** A word of a shell, quoted where it must be. */
const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/** A command with a button that copies it. */
function command(text) {
  return make('div', { class: 'command' }, make('pre', { tabindex: '0' }, make('code', null, text)), make('button', { type: 'button', class: 'copy', 'data-copy': text }, 'Copy'));
}

/** Announce a text to screen readers. */
function tell(text) {
  $('announced').textContent = text;
}

async function copy(button) {
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = 'Copied';
  } catch {
    const range = document.createRange();
    range.selectNodeContents(button.previousElementSibling);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    button.textContent = document.execCommand('copy') ? 'Copied' : 'Selected';
  }
  tell(`${button.textContent}.`);
  setTimeout(() => { button.textContent = 'Copy'; }, 1600);
}
