import { render } from "preact";
import { App } from "./app";
import { followLinks } from "./router";
import "uplot/dist/uPlot.min.css";
import "./style/style.css";

followLinks();
render(<App />, document.getElementById("app")!);
