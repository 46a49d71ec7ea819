(() => {
  'use strict';
  const root = document.documentElement;
  root.classList.add('script');
  const kept = { get: () => { try { return localStorage.getItem('theme'); } catch { return null; } },
    set: (v) => { try { localStorage.setItem('theme', v); } catch { /* not remembered */ } } };
  const theme = kept.get();
  if (theme) root.dataset.theme = theme;
  const $ = (s, at = document) => at.querySelector(s);
  const all = (s, at = document) => [...at.querySelectorAll(s)];

  addEventListener('DOMContentLoaded', () => {
    $('#theme')?.addEventListener('click', () => {
      const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
      root.dataset.theme = dark ? 'light' : 'dark';
      kept.set(root.dataset.theme);
    });
    $('#help-open')?.addEventListener('click', () => $('#help').showModal());
    copying();
    choosing();
    deliveries();
    polling();
    keys();
  });

  function copying() {
    const say = (el, text) => {
      navigator.clipboard?.writeText(text).then(() => {
        el.dataset.was ??= el.textContent;
        el.textContent = 'Copied';
        setTimeout(() => { el.textContent = el.dataset.was; delete el.dataset.was; }, 1000);
      }, () => {});
    };
    document.addEventListener('click', (e) => {
      const from = e.target.closest('[data-copy-from]'), own = e.target.closest('[data-copy]');
      if (from) say(from, document.getElementById(from.dataset.copyFrom).textContent);
      else if (own && !own.dataset.was) say(own, own.textContent);
    });
  }

  function choosing() {
    all('[data-all]').forEach((box) => box.addEventListener('change', () => {
      all('input[name=event]', box.form).forEach((one) => { one.checked = box.checked; });
    }));
  }

  const main = () => $('main.two');
  let asked;

  // open shows an event beside the list; without scripts its link opens the whole page.
  async function open(href, push, focus) {
    asked?.abort();
    const mine = asked = new AbortController();
    try {
      const res = await fetch(href, { headers: { 'Eyelet-Part': 'detail' }, signal: mine.signal });
      if (!res.ok) { location.assign(href); return; }
      const text = await res.text();
      if (mine.signal.aborted) return;
      const pane = $('#pane');
      pane.innerHTML = text;
      pane.scrollTop = 0;
      main().classList.add('open');
      mark(all('a.row').find((r) => r.getAttribute('href') === new URL(href, location).pathname + new URL(href, location).search));
      if (push) history.pushState({}, '', href);
      document.title = ($('h1', pane)?.textContent || 'Event') + ' · Eyelet';
      if (focus) pane.focus();
    } catch (e) {
      if (e.name !== 'AbortError') location.assign(href);
    }
  }

  function mark(row) {
    all('.row[aria-current]').forEach((r) => r.removeAttribute('aria-current'));
    row?.setAttribute('aria-current', 'true');
    row?.scrollIntoView({ block: 'nearest' });
  }

  function deliveries() {
    const rows = $('#rows');
    if (!rows) return;
    rows.addEventListener('click', (e) => {
      const row = e.target.closest('a.row');
      if (!row || !/\/(events|refused)\//.test(row.pathname) || e.metaKey || e.ctrlKey || e.shiftKey || e.button) return;
      e.preventDefault();
      open(row.href, true, false);
    });
    addEventListener('popstate', () => location.reload());
    if (rows.dataset.stream) live(rows);
  }

  // live adds rows as they come. They wait while the list is scrolled down.
  function live(rows) {
    const newer = $('#newer'), sign = $('#live');
    let held = [];
    const add = (html) => {
      const t = document.createElement('template');
      t.innerHTML = html;
      const at = t.content.firstElementChild;
      if (at.dataset.event) all('li', rows).filter((li) => li.dataset.event === at.dataset.event && $('.chip.ok', li) && $('.chip.ok', at)).forEach((li) => li.remove());
      rows.prepend(t.content);
      $('.list .empty')?.remove();
      while (rows.children.length > 300) rows.lastElementChild.remove();
    };
    const flush = () => { held.forEach(add); held = []; newer.hidden = true; };
    const scrolled = () => Math.max(scrollY, $('.list').scrollTop) > 120;
    newer.addEventListener('click', () => { flush(); scrollTo(0, 0); $('.list').scrollTop = 0; });
    const source = new EventSource(rows.dataset.stream);
    source.addEventListener('row', (e) => {
      if (!scrolled()) { add(e.data); return; }
      held = [...held, e.data].slice(-300);
      newer.hidden = false;
      newer.textContent = held.length + ' newer';
    });
    source.addEventListener('state', (e) => {
      const s = JSON.parse(e.data);
      all('li', rows).filter((li) => li.dataset.event === s.event).forEach((li) => {
        const em = $('em', li);
        if (!em.textContent) return;
        em.textContent = s.word; em.className = s.mood;
        $('.took', li).textContent = s.took; $('.tries', li).textContent = s.tries;
      });
    });
    source.addEventListener('open', () => { sign.classList.add('on'); sign.textContent = 'live'; });
    source.addEventListener('error', () => { sign.classList.remove('on'); sign.textContent = source.readyState === 2 ? 'not live: load the page again' : 'connecting'; });
    addEventListener('pagehide', () => source.close());
  }

  function polling() {
    const at = $('main[data-poll]');
    if (!at) return;
    const timer = setInterval(async () => {
      const res = await fetch(location.href, { headers: { 'Eyelet-Part': 'detail' } }).catch(() => null);
      if (!res?.ok) return;
      at.innerHTML = await res.text();
      if ($('[data-ended]', at)) clearInterval(timer);
    }, 500);
  }

  function keys() {
    const step = (by) => {
      const rows = all('a.row');
      if (!rows.length) return;
      const at = rows.findIndex((r) => r.hasAttribute('aria-current'));
      const row = rows[Math.max(0, Math.min(rows.length - 1, at + by))];
      mark(row);
      row.focus({ preventScroll: true });
      if (main().classList.contains('open')) open(row.href, true, false);
    };
    addEventListener('keydown', (e) => {
      if (e.ctrlKey || e.metaKey || e.altKey || $('dialog[open]')) return;
      const typing = e.target.matches('input:not([type=checkbox]):not([type=radio]), textarea, select');
      if (e.key === 'Escape') {
        if (typing) e.target.blur();
        else if ($('#close')) location.assign($('#close').href);
        return;
      }
      if (typing) return;
      if (e.key === '/') { e.preventDefault(); $('#q')?.focus(); }
      else if (e.key === 'j') step(1);
      else if (e.key === 'k') step(-1);
      else if (e.key === 'Enter' && e.target.matches('a.row')) { e.preventDefault(); open(e.target.href, true, true); }
      else if (e.key === 'r' && $('#rerun')) { $('#rerun').open = true; $('#rerun button').focus(); }
      else if (e.key === '?') $('#help')?.showModal();
      else if ('12345'.includes(e.key)) all('.top nav a')[e.key - 1]?.click();
    });
  }
})();
