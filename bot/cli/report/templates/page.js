"use strict";
(() => {
  const L = window.LightweightCharts;
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const number = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
  const vnd = { type: "custom", minMove: 1, formatter: (value) => number.format(value) };
  const percent = { type: "custom", minMove: 0.01, formatter: (value) => `${value.toFixed(1)} %` };

  const look = () => ({
    layout: {
      background: { color: color("--paper") }, textColor: color("--soft"), attributionLogo: true,
      panes: { separatorColor: color("--line") },
    },
    grid: { vertLines: { color: color("--line") }, horzLines: { color: color("--line") } },
    rightPriceScale: { borderColor: color("--line"), scaleMargins: { top: 0.12, bottom: 0.08 } },
    timeScale: { borderColor: color("--line") },
  });
  const make = (id) => L.createChart(document.getElementById(id), { autoSize: true, ...look() });

  // The account: equity above, drawdown below.
  const account = make("equity");
  const equity = account.addSeries(L.AreaSeries, { priceFormat: vnd, lineWidth: 2, priceLineVisible: false });
  const below = account.addSeries(L.AreaSeries, {
    priceFormat: percent, lineWidth: 1, priceLineVisible: false, invertFilledArea: true,
  }, 1);
  equity.setData(data.equity.map(([time, value]) => ({ time, value })));
  below.setData(data.equity.map(([time, , fall]) => ({ time, value: fall })));
  account.panes()[0].setStretchFactor(3);
  account.panes()[1].setStretchFactor(1);
  account.timeScale().fitContent();

  // The market: one symbol at a time.
  const market = make("candles");
  const candles = market.addSeries(L.CandlestickSeries, { priceFormat: vnd, priceLineVisible: false });
  const markers = L.createSeriesMarkers(candles, []);
  const note = document.getElementById("candles-note");
  const buttons = [...document.querySelectorAll(".pick button")];
  const SHAPES = {
    B: { shape: "arrowUp", position: "belowBar", tone: "--up" },
    S: { shape: "arrowDown", position: "aboveBar", tone: "--down" },
    R: { shape: "square", position: "aboveBar", tone: "--off" },
  };
  let symbol = "";
  let shown = [];
  const draw = () => {
    markers.setMarkers(shown.map(([time, kind, count]) => ({
      time, shape: SHAPES[kind].shape, position: SHAPES[kind].position,
      color: color(SHAPES[kind].tone), text: count > 1 ? `${kind}${count}` : kind,
    })));
  };
  const show = (name) => {
    const found = data.symbols[name];
    if (!found || name === symbol) return;
    symbol = name;
    shown = found.markers;
    markers.setMarkers([]);
    market.applyOptions({ timeScale: { timeVisible: found.seconds < 86400, secondsVisible: false } });
    candles.setData(found.rows.map(([time, open, high, low, close]) => ({ time, open, high, low, close })));
    note.textContent = found.note;
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.symbol === name));
    draw();
    market.timeScale().fitContent();
  };
  const dress = () => {
    account.applyOptions(look());
    market.applyOptions(look());
    equity.applyOptions({
      lineColor: color("--accent"), topColor: `${color("--accent")}40`, bottomColor: `${color("--accent")}05`,
    });
    below.applyOptions({
      lineColor: color("--down"), topColor: `${color("--down")}10`, bottomColor: `${color("--down")}50`,
    });
    candles.applyOptions({
      upColor: color("--up"), wickUpColor: color("--up"), borderUpColor: color("--up"),
      downColor: color("--down"), wickDownColor: color("--down"), borderDownColor: color("--down"),
    });
    draw();
  };
  dress();
  dark.addEventListener("change", dress);
  for (const button of buttons) button.addEventListener("click", () => show(button.dataset.symbol));
  if (buttons.length) show(buttons[0].dataset.symbol);

  // A click on a trade shows its sale in the chart of its symbol.
  const AROUND = 40;
  document.querySelector("#trades tbody").addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    if (!row || !data.symbols[row.dataset.symbol]) return;
    show(row.dataset.symbol);
    const near = data.symbols[symbol].near[row.dataset.number];
    if (near) {
      shown = near.markers;
      symbol = "";  // so that the symbol's button shows the whole run again
      markers.setMarkers([]);
      market.applyOptions({ timeScale: { timeVisible: true } });
      candles.setData(near.rows.map(([time, open, high, low, close]) => ({ time, open, high, low, close })));
      note.textContent = `${row.dataset.symbol}: the bars around the purchase and the sale of trade ${row.dataset.number}. The symbol's button shows the whole run.`;
      draw();
      market.timeScale().fitContent();
      document.getElementById("candles").scrollIntoView({ block: "center", behavior: "smooth" });
      return;
    }
    const rows = data.symbols[symbol].rows;
    let at = rows.findIndex(([time]) => time > Number(row.dataset.at)) - 1;
    if (at < 0) at = rows.length - 1;
    market.timeScale().setVisibleLogicalRange({ from: at - AROUND, to: at + AROUND });
    document.getElementById("candles").scrollIntoView({ block: "center", behavior: "smooth" });
  });
})();
