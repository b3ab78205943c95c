/* The route of a packet: a line with a stop for each host that handled it, dashed once the source is no longer the client's. */
const CHANGE = /^(before |beyond )?(\S+?)(?: to (\S+?))?, between (.+?) and (.+?): (\S+) became (\S+)$/;

/** Where the source changed, from the words about the packets. */
function changesOf(words) {
  return words.split('; ').map((text) => {
    const found = CHANGE.exec(text.replace(/: NAT moved the source port of (\S+)$/, ': $1 became $1'));
    return found && { where: (found[1] || '').trim(), node: found[2], to: found[3] || '', between: `${found[4]} and ${found[5]}`, from: found[6], became: found[7] };
  }).filter(Boolean);
}

/** A change in words; masquerading a node's own packets often changes only the port. */
const became = (each) => (each.from === each.became ? `source port changed; its address stayed ${each.from}` : `source changed: ${each.from} → ${each.became}`);

/** The pod that has an address; a client can be a backend too. */
function podAt(end) {
  const owner = ownerOf(end);
  return owner.startsWith('client ') || owner.startsWith('pod ') ? owner.replace('client ', 'pod ') : 'a backend';
}

/** The nodes at which packets show the request, in order. */
function nodesOf(words) {
  const found = [...words.matchAll(/^at the (?:node|pod):\s+\S+ -> (\S+) on (\S+) (in|out) (\S+)$/gm)];
  const last = /^(?:no packet to a backend was captured; the last one|it was seen to go to no backend; last seen) on (\S+) (in|out) (\S+)$/m.exec(words);
  if (last) found.push(['', '', ...last.slice(1)]);
  return found.map(([, to, node, way, card]) => ({ to, node, way, card }));
}

/** The dialled entry in words, from the end of the path's name. */
const ENTRIES = { clusterip: 'the ClusterIP', vip: 'the VIP', hostname: 'the host name' };
function entryOf(path) {
  const name = (path.split('-to-').pop() || '').split('.')[0];
  return ENTRIES[name] || name.replaceAll('-', ' ');
}

/** The outcome in words of a probe that got no right answer. */
const ENDS = {
  timeout: 'the client got no answer',
  refused: 'the client was refused',
  reset: 'the client’s connection was reset',
  unreachable: 'the client’s host reported the destination as unreachable',
  misdirected: 'the answer came from another address than the dialled one, so the client cannot use it',
};

/** Whether packets of a request were captured or changed at a node. */
const handledAt = (node, sights, changes) => sights.some((sight) => sight.node === node) || changes.some((each) => each.node === node || each.to === node);

/** The stops of a route. */
function stopsOf(check, path) {
  const packet = path.packets[0] || null;
  const probe = (packet && path.probes.find((each) => each.seq === packet.seq && each.times === 1)) || path.probes.find((each) => each.outcome === 'answered') || path.probes[0];
  const sights = packet ? nodesOf(packet.words) : [];
  const changes = packet ? changesOf(packet.change) : [];
  const owner = probe.dialled ? ownerOf(probe.dialled) : '';
  const home = DATA.homes[check.client] || '';
  const stops = [{ kind: 'client', name: `client ${check.client}`, at: probe.source }];
  const seenAt = (sight) => {
    const last = stops[stops.length - 1];
    if (last.node !== sight.node) stops.push({ kind: 'node', name: `node ${sight.node}${sight.node === home ? ' (the client’s own)' : ''}`, at: '', node: sight.node });
  };
  const dialled = owner.startsWith('node ') ? owner.slice(5) : '';
  // the packets' words need not name the dialled node: another node may have handled them first
  const unseen = dialled && sights.length > 0 && !handledAt(dialled, sights, changes);
  const left = [...sights];
  if (dialled && dialled !== home && !unseen && left.length && left[0].node === home) seenAt(left.shift()); // before it came to the other
  if (!owner.startsWith('pod ') && !owner.startsWith('client ')) {
    const name = unseen ? `dialled: an address of node ${dialled}` : `dialled: ${owner || entryOf(check.path)}`;
    stops.push({ kind: 'entry', name, at: probe.dialled, node: unseen ? '' : dialled });
  }
  left.forEach(seenAt);
  const answered = probe.outcome === 'answered';
  const last = sights[sights.length - 1];
  const pod = sights.length > 0 && /^at the pod:/m.test(packet.words) ? last.to : '';
  if (probe.pod || pod) {
    if (probe.node && stops[stops.length - 1].node !== probe.node) stops.push({ kind: 'node', name: `node ${probe.node}`, at: '', node: probe.node });
    const name = probe.pod ? `pod ${probe.pod}` : podAt(pod);
    stops.push({ kind: 'backend', name: probe.pod || last.way === 'out' ? name : `towards ${name}, arrival not captured`, at: pod });
  }
  if (!answered) stops.push({ kind: 'end', name: ENDS[probe.outcome] || `the client saw: ${probe.outcome}`, at: probe.detail });
  return { stops, changes, probe, packet, unseen: unseen ? dialled : '' };
}

/** The changes at a stop, or on the stretch before it. */
function takeChanges(changes, stop, before) {
  const taken = changes.filter((each) => !each.taken && (before ? each.where === 'before' || each.to : each.where !== 'before' && !each.to) && (each.to || each.node) === stop.node);
  for (const each of taken) each.taken = true;
  return taken;
}

function wayOf(check, path, wide) {
  const { stops, changes, probe, packet, unseen } = stopsOf(check, path);
  const parts = [];
  const words = [];
  let y = 16;
  let source = probe.source;
  let kind = 'own';
  const delivered = packet ? packet.delivered : probe.seen;
  const stretch = (height, label, css) => {
    parts.unshift(make('line', { x1: 12, y1: y, x2: 12, y2: y + height, class: css, 'stroke-width': 4 }));
    if (label) parts.push(make('text', { x: 34, y: y + height / 2 + 5, class: 'addr' }, label));
    y += height;
  };
  const turn = (each, onTheWay) => {
    stretch(18, '', kind);
    source = each.became;
    kind = addressOf(each.became) === addressOf(probe.source) ? 'own' : 'other';
    const between = each.between ? [`, between ${each.between}`] : [];
    parts.push(make('path', { d: `M12 ${y}m-8 0l8-8 8 8-8 8z`, class: 'turn' }));
    parts.push(make('text', { x: 34, y: y + 5 }, make('tspan', { class: 'changed' }, became(each))));
    if (between.length) parts.push(make('text', { x: 34, y: y + 21, class: 'addr' }, `between ${each.between}`));
    stretch((between.length ? 14 : 4) + (onTheWay ? 24 : 0), '', kind);
    words.push(`${became(each)}${between.join('')}`);
  };
  stops.forEach((stop, at) => {
    if (at) {
      const end = stop.kind === 'end';
      stretch(42, end ? '' : `from ${source || '?'}`, end ? 'gone' : kind);
      for (const each of takeChanges(changes, stop, true)) turn(each, true);
      const hidden = stop.kind === 'backend' && delivered && addressOf(delivered) !== addressOf(source || '') && !changes.some((each) => each.taken);
      if (hidden) turn({ from: addressOf(source || '?'), became: addressOf(delivered), between: '' }, true);
    }
    if (stop.kind === 'end') parts.push(make('path', { d: `M6 ${y - 6}l12 12m0-12l-12 12`, class: 'cross' }));
    else parts.push(stop.kind === 'client' || stop.kind === 'backend' ? make('rect', { x: 4, y: y - 8, width: 16, height: 16, rx: 3, class: 'stop' }) : make('circle', { cx: 12, cy: y, r: 7, class: 'stop' }));
    const beside = (stop.name.length + stop.at.length) * 7.6 < wide - 50;
    parts.push(make('text', { x: 34, y: y + 4 }, make('tspan', { class: 'name' }, stop.name), stop.at && beside ? make('tspan', { class: 'addr', dx: 8 }, stop.at) : null));
    if (stop.at && !beside) {
      parts.push(make('text', { x: 34, y: y + 20, class: 'addr' }, stop.at));
      stretch(14, '', kind);
    }
    words.push(stop.name + (stop.at ? ` (${stop.at})` : ''));
    for (const each of stop.node ? takeChanges(changes, stop, false) : []) turn(each);
  });
  const text = words.join('; then ');
  const svg = make('svg', { class: 'way', viewBox: `0 0 ${wide} ${y + 20}`, width: wide, height: y + 20, role: 'img', 'aria-labelledby': 'way-t way-d' }, make('title', { id: 'way-t' }, 'The packet’s route'), make('desc', { id: 'way-d' }, text), ...parts);
  const untaken = changes.filter((each) => !each.taken).map((each) => make('p', null, `The source also changed elsewhere, ${each.where} ${each.node}: ${each.from} became ${each.became}.`));
  const basis = packet && nodesOf(packet.words).length ? `Based on the packets of connection ${packet.seq}.` : 'Based on the prober and the echo server; no packets show the route between them.';
  const beyond = unseen ? ` They do not show whether it passed node ${unseen}.` : '';
  const others = lanesOf(path, '').length > 1 ? ' The probes differ: see them over time.' : '';
  return [svg, ...untaken, make('p', { class: 'quiet small' }, `${basis}${beyond}${others} Solid line: the client’s own address. Dashed: another source. ◆: the source changed here.`)];
}
