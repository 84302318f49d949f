import { startPodman } from '../support/engines.ts';
import { engineSuite } from './engine-suite.ts';

engineSuite(startPodman);
