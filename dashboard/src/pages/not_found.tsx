import type { JSX } from "preact";
import { Empty, Page, Panel } from "../parts/basic";

export const NotFoundPage = (): JSX.Element => (
  <Page title="Nothing is here"><Panel><Empty icon="search" title="There is no such page">Go to the overview, or press / to search.</Empty></Panel></Page>
);
