/* Start the page and connect its events. */
fillForm();
form.hidden = false;
$('found').hidden = false;
for (const button of document.querySelectorAll('.copy')) button.hidden = false;

/** Set the page from its address. */
function route() {
  if (location.hash && !location.hash.includes('=') && !/%3D/i.test(location.hash)) return; // a section of the page
  const address = fromAddress();
  const changed = addressFor(address.filters, '') !== addressFor(state, '');
  state = address.filters;
  showForm();
  if (changed) apply();
  const number = address.row ? numberOf(address.row) : -1;
  if (number >= 0) {
    if (!drawer.open || current !== number) openCheck(number);
  } else {
    pushed = false;
    closeCheck();
    if (address.row) tell(`This run has no check ${address.row}.`);
  }
}

form.addEventListener('input', (event) => filter(readForm(), event.target.name === 'q'));
form.addEventListener('submit', (event) => event.preventDefault());
form.addEventListener('reset', () => setTimeout(() => {
  filter({ q: '', verdict: [], ...Object.fromEntries(SELECTS.map((name) => [name, ''])) }, false);
}));
$('found').addEventListener('toggle', () => { if ($('found').open && !listed) listMore(AT_ONCE); });
$('found-more').addEventListener('click', () => listMore(5 * AT_ONCE));
$('drawer-before').addEventListener('click', () => step(-1));
$('drawer-next').addEventListener('click', () => step(1));
$('drawer-close').addEventListener('click', closeCheck);
drawer.addEventListener('click', (event) => { if (event.target === drawer) closeCheck(); });
drawer.addEventListener('keydown', (event) => {
  if (event.target.closest('input, textarea, select') || event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === 'ArrowLeft' && !event.target.closest('pre')) step(-1);
  if (event.key === 'ArrowRight' && !event.target.closest('pre')) step(1);
});
drawer.addEventListener('close', () => {
  if (!fromAddress().row) return;
  if (pushed) history.back();
  else history.replaceState(null, '', addressFor(state, ''));
  pushed = false;
});
document.addEventListener('click', (event) => {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const button = event.target.closest('[data-copy]');
  if (button) copy(button);
  const link = event.target.closest('a[href^="#row="], a[data-filter]');
  if (!link) return;
  event.preventDefault();
  if (!link.dataset.filter) goTo(link.getAttribute('href').slice(5));
  else {
    const params = new URLSearchParams(link.dataset.filter);
    filter({ q: '', verdict: [], ...Object.fromEntries(SELECTS.map((name) => [name, params.get(name) || ''])) }, false);
    showForm();
    $('rows').scrollIntoView();
  }
});
window.addEventListener('popstate', route);
window.addEventListener('hashchange', route);
apply();
route();
if (filtering()) $('rows').scrollIntoView();
